"""The bundles that a block has of frames that are compiled again and again: one for each frame, which grows.

A bundle is written in the place of the one before, so that it is whole whatever becomes of the process, and objects
that die later were alive when it was written. The first calls are written one by one. Of many, a bundle is written
when there are half as many again, or when writing takes little of the program's time; the rest is added when the block
ends. So the time for each call does not grow with their number, and a crash of the process loses a third of them at
most. A function that is decorated is a block with each call, and only where that raises its end counts: else a third of
more than 16 calls may be missing there too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType
from typing import Protocol

from replay.bundle import Published
from replay.recorder import capture, happenings, later, sequences, surroundings, telling
from replay.recorder.happenings import Happening
from replay.recorder.history import History
from replay.recorder.traffic import Traffic
from replay.selection import resumed_function
from replay.torch_adapter import failures, hooks

EACH = 16
"""So many calls are written one by one: twice torch's usual limit."""
GROWTH = 1.5
"""Of more, the bundle is written when it holds so many times what it held."""
PATIENCE = 20.0
"""Or when so many times as long has passed as it took to write it last."""


class Place(Protocol):
    """What is needed of the block."""

    bundles: list[Path]
    seen: dict[str, Path]

    def alone(self) -> AbstractContextManager[object]:
        """No other thread or process writes bundles of this block meanwhile."""

    def sibling(self, attempt: hooks.Attempt, happening: Happening) -> Path | None:
        """The bundle that another process of the block has of it."""

    def is_full(self) -> bool:
        """Whether the block has as many bundles as it may."""

    def asked(self, *, durable: bool) -> capture.Asked:
        """What the block wants of its bundles."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that is not in its bundle yet."""

    compile_id: str
    happening: Happening
    around: surroundings.Surroundings
    process: int  # a forked child leaves the calls of its parent alone


@dataclass(frozen=True, slots=True)
class Growing:
    """The bundle of one frame, and how it grows."""

    kept: sequences.Kept
    took: float  # seconds to write it
    written: float  # time.perf_counter() then
    waiting: Waiting | None = None  # the latest of the calls that it does not hold

    def is_due(self, calls: int) -> bool:
        """Whether it is to be written with so many calls."""
        passed = time.perf_counter() - self.written
        return calls <= EACH or calls >= GROWTH * self.kept.calls or passed >= PATIENCE * self.took


class Series:
    """All such bundles of a block."""

    def __init__(self, place: Place, calls: History) -> None:
        self._place, self._calls = place, calls
        self._frames: dict[str, Growing] = {}

    def add(self, attempt: hooks.Attempt, happening: Happening) -> None:
        """One more call of a frame."""
        identity = happenings.identity(attempt, happening)
        with self._place.alone():
            known = self._frames.get(identity)
            grown = self._grown(known, attempt, happening)
            if grown is not None:
                self._put(identity, grown)
        if known is None and grown is not None:
            telling.tell(attempt, happening, grown.kept.path)
            telling.tell_regrets(grown.kept.path)

    def complete(self, code: CodeType | None = None) -> None:
        """Write what waits, of one frame or of all; must not raise. What is gone by now cannot be written."""
        for identity, growing in list(self._frames.items()):
            kept, waiting = growing.kept, growing.waiting
            if waiting is None or kept.code is None or waiting.process != os.getpid():
                continue
            if code is not None and code is not kept.code:
                continue
            try:
                with self._place.alone():
                    self._put(identity, self._caught_up(growing, waiting, kept.code))
            except Exception as error:  # noqa: BLE001 - the program must not notice
                telling.warn(
                    f"replay could not add the last calls to {kept.path}: {type(error).__name__}: {error}"
                )

    def count(self, traffic: Traffic, *, seldom: bool) -> None:
        """Add the calls that were counted; must not raise. `seldom`: only where they have become twice as many."""
        for identity, growing in list(self._frames.items()):
            kept = growing.kept
            flow = None if kept.code is None else traffic.flow(kept.code)
            if flow is None or (seldom and flow.total < 2 * kept.counted):
                continue
            try:
                with self._place.alone():
                    self._frames[identity] = replace(growing, kept=sequences.counted(kept, flow))
            except Exception as error:  # noqa: BLE001 - the program must not notice
                telling.warn(
                    f"replay could not add its calls to {kept.path}: {type(error).__name__}: {error}"
                )

    def _grown(self, known: Growing | None, attempt: hooks.Attempt, happening: Happening) -> Growing | None:
        """With this call; None: there is nothing to keep."""
        calls = sequences.length(attempt, self._calls)
        if known is None:
            return self._begun(attempt, happening, calls)
        if not known.kept.is_outgrown(calls):
            return None
        waiting = None if known.is_due(calls) else _waiting(attempt, happening)
        if waiting is not None:
            return replace(known, waiting=waiting)
        return self._written(attempt, happening, calls, known.kept.file)

    def _begun(self, attempt: hooks.Attempt, happening: Happening, calls: int) -> Growing | None:
        if self._place.is_full():
            return None
        path = self._place.sibling(attempt, happening)
        if path is not None:
            return Growing(sequences.Kept(None, path, calls, None), 0.0, 0.0)
        return self._written(attempt, happening, calls, None)

    def _written(
        self, attempt: hooks.Attempt, happening: Happening, calls: int, instead_of: Published | None
    ) -> Growing:
        return _timed(
            lambda: capture.write_sequence(
                self._place.asked(durable=True), attempt, happening, self._calls, instead_of
            ),
            calls,
            attempt.code,
        )

    def _caught_up(self, growing: Growing, waiting: Waiting, code: CodeType) -> Growing:
        """With the calls that waited, as far as what they got is still there."""
        call = self._calls.last(code)
        found = None if call is None else later.of_last(call)
        if call is None or found is None or call.compile_id != waiting.compile_id:
            return replace(growing, waiting=None)
        attempt, particulars = found
        past = particulars, waiting.around
        return _timed(
            lambda: capture.write_sequence(
                self._place.asked(durable=True),
                attempt,
                waiting.happening,
                self._calls,
                growing.kept.file,
                past,
            ),
            sequences.length(attempt, self._calls) - 1,  # this call is among them already
            code,
        )

    def _put(self, identity: str, grown: Growing) -> None:
        known, path = self._frames.get(identity), grown.kept.path
        self._frames[identity], self._place.seen[identity] = grown, path
        bundles = self._place.bundles
        if known is not None and known.kept.path in bundles:
            bundles[bundles.index(known.kept.path)] = path
        elif path not in bundles:
            bundles.append(path)


def _timed(write: Callable[[], Published], calls: int, code: CodeType) -> Growing:
    started = time.perf_counter()
    file = write()
    ended = time.perf_counter()
    return Growing(sequences.Kept(file, file.path, calls, code), ended - started, ended)


def _waiting(attempt: hooks.Attempt, happening: Happening) -> Waiting | None:
    """What is kept of a call that is written later; None for one that cannot be.

    After a limit there may be no other call. A resume function is written with the frame that called it, and the frame
    inside a transform with that, as long as they are there.
    """
    if failures.is_limit(attempt.error) or attempt.entry is not None or attempt.compile_id is None:
        return None
    if resumed_function(attempt.code.co_name) is not None:
        return None
    around = surroundings.of(attempt)
    return (
        None if "transforms" in around.state else Waiting(attempt.compile_id, happening, around, os.getpid())
    )
