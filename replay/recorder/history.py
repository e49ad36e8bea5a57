"""What earlier calls of a frame looked like: needed where a failure depends on them (dynamic shapes, limits).

Kept only for calls that compiled, as metadata: see `remains`. What is gone by the time of the
failure becomes `Gone`, which old bundles look for in this module.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import CellType, CodeType
from typing import Any

from replay.recorder import attributes, frames
from replay.recorder.remains import Gone, is_whole, revive, sketch
from replay.torch_adapter import events, failures, hooks, sketches, state

__all__ = ["Call", "Gone", "History", "Past", "Sketched", "revive", "revived", "sketch"]

KEPT = 300
"""Calls that are kept for one code object; torch's accumulated limit is 256."""
REASONS = 16
"""Of a call's reasons, one for each cached entry, so many are kept, in torch's order: twice its usual limit."""


@dataclass(frozen=True, slots=True)
class Call:
    """One earlier call: its local variables, sketched."""

    compile_id: str
    f_locals: Mapping[str, Any]
    grad_enabled: bool
    state: Mapping[str, Any] = field(default_factory=dict)  # as replay.torch_adapter.state captures it
    seen: attributes.Seen = field(default_factory=attributes.Seen)
    frame: Past | None = None
    started: float = 0.0  # seconds since the block began
    seconds: float = 0.0  # that the compilation took
    reasons: tuple[str, ...] = ()  # as hooks.Attempt.reasons, or what torch's metrics say
    fingerprint: str = ""  # of a recompile
    limit: str = ""  # the one that it hit, so that it was not compiled


@dataclass(frozen=True, slots=True)
class Past:
    """What else is known of the frame that was compiled."""

    code: CodeType
    f_globals: dict[str, Any]
    closure: tuple[Any, ...]  # contents of the cells, sketched; Gone where a cell was empty
    converter: Any


@dataclass(frozen=True, slots=True)
class Sketched:
    """Marks a sketch among live values."""

    sketch: Any


class History:
    """The compiling calls of every frame in a block."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[CodeType, list[Call]]] = {}  # by id: equal code may be of two functions
        self._lock = threading.Lock()
        self._began = time.perf_counter()
        self._dropped: dict[int, int] = {}
        self.refused: Call | None = None  # the latest that the stance fail_on_recompile refused

    def began(self) -> None:
        """The block begins: times count from now, unless something is kept already."""
        with self._lock:
            if not self._calls:
                self._began = time.perf_counter()

    def note(self, attempt: hooks.Attempt) -> None:
        """Keep a sketch of a call that compiled or was refused."""
        call = self.sketched(attempt)
        with self._lock:
            if attempt.fate == "refused":
                self.refused = call
                return
            _, calls = self._calls.setdefault(id(attempt.code), (attempt.code, []))
            if call.compile_id.endswith("/0"):
                calls.clear()  # the first compilation: what was before is forgotten by torch as well
                self._dropped.pop(id(attempt.code), None)
            calls.append(call)
            if len(calls) > KEPT:
                del calls[0]
                self._dropped[id(attempt.code)] = self.dropped(attempt.code) + 1

    def sketched(self, attempt: hooks.Attempt) -> Call:
        """What is to be kept of a call."""
        previous = self.last(attempt.code)
        return _call(attempt, time.perf_counter() - attempt.seconds - self._began, previous)

    def dropped(self, code: CodeType) -> int:
        """Calls of a code object that are kept no more: the oldest."""
        return self._dropped.get(id(code), 0)

    def before(self, attempt: hooks.Attempt) -> list[Call]:
        """The calls that compiled this frame before, oldest first."""
        with self._lock:
            return list(self._kept(attempt.code))

    def last(self, code: CodeType) -> Call | None:
        """The latest call that compiled a code object."""
        with self._lock:
            calls = self._kept(code)
            return calls[-1] if calls else None

    def find(self, compile_id: str) -> Call | None:
        """The call that was compiled under an id."""
        with self._lock:
            calls = (call for _, kept in self._calls.values() for call in kept)
            return next((call for call in calls if call.compile_id == compile_id), None)

    def only(self) -> Call | None:
        """The one call of a block in which nothing else was compiled."""
        with self._lock:
            calls = [call for _, kept in self._calls.values() for call in kept]
            return calls[0] if len(calls) == 1 else None

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._calls.clear()
            self._dropped.clear()
            self.refused = None

    def _kept(self, code: CodeType) -> list[Call]:
        return self._calls[id(code)][1] if id(code) in self._calls else []


def is_alive(call: Call) -> bool:
    """Whether all that the call's frame got is still there, or can be made again."""
    closure = () if call.frame is None else call.frame.closure
    return all(map(is_whole, (*call.f_locals.values(), *closure)))


def _call(attempt: hooks.Attempt, started: float, previous: Call | None) -> Call:
    limit = failures.limit_name(attempt.error)
    again = events.is_recompile(attempt) or limit
    signature, reason = events.describe_recompile(attempt) if again else ("", "")
    return Call(
        compile_id=attempt.compile_id or "?",
        f_locals={name: sketch(value) for name, value in attempt.f_locals.items()},
        grad_enabled=sketches.grad_enabled(),
        state=state.capture(),
        seen=attributes.seen(
            attempt.code,
            attempt.f_globals,
            attempt.closure,
            [*attempt.f_locals.values(), *map(frames.content, attempt.closure)],
            None if previous is None else previous.seen,
        ),
        frame=Past(
            attempt.code,
            attempt.f_globals,
            tuple(_cell_sketch(cell) for cell in attempt.closure),
            attempt.converter,
        ),
        started=max(0.0, started),
        seconds=attempt.seconds,
        reasons=attempt.reasons[:REASONS] or ((reason,) if reason else ()),
        fingerprint=signature,
        limit=limit,
    )


def revived(attempt: hooks.Attempt, tensor: Callable[[sketches.Tensor], Any]) -> hooks.Attempt:
    """The attempt with every `Sketched` variable and cell made again."""

    def value_of(value: Any) -> Any:
        return revive(value.sketch, tensor) if type(value) is Sketched else value

    return replace(
        attempt,
        f_locals={name: value_of(value) for name, value in attempt.f_locals.items()},
        closure=tuple(_revived_cell(cell, value_of) for cell in attempt.closure),
    )


def _revived_cell(cell: CellType, value_of: Callable[[Any], Any]) -> CellType:
    held = frames.content(cell)
    return CellType(value_of(held)) if type(held) is Sketched else cell


def _cell_sketch(cell: CellType) -> Any:
    try:
        return sketch(cell.cell_contents)
    except ValueError:  # not assigned yet
        return Gone("cell")
