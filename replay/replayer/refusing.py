"""The instrument behind `recompiles`: of each call that comes to the compiler again, every guard that sent it there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from replay.recording import Outcome
from replay.replayer.instruments import Instrument
from replay.replayer.preparation import Prepared, torch_version
from replay.replayer.seen import Seen
from replay.torch_adapter import hooks, refusals


class Refusing(Instrument):
    """Which cached entries of the frame each attempt to compile it found, and why none of them fitted."""

    def __init__(self) -> None:
        self._book: refusals.Book | None = None
        self._met: list[tuple[refusals.Refused, ...]] = []  # of attempts that are going on
        self._found: dict[str, tuple[refusals.Refused, ...]] = {}
        self._unknown: list[str] = []

    @contextmanager
    def around(self, prepared: Prepared, seen: Seen) -> Iterator[None]:
        """Ask the entries ahead of each attempt, while they can be told from the one that it makes."""
        self._book = book = refusals.Book(prepared.subject.__code__)
        with book.listening(), hooks.observing(lambda attempt: None, before=self._begun):
            yield

    def observe(self, attempt: hooks.Attempt) -> None:
        """An attempt has ended, and has its compile id now."""
        if self._book is None or attempt.code is not self._book.code:
            return
        if self._met:
            self._found[attempt.compile_id or ""] = self._met.pop()
        if attempt.fate == "compiled":
            with self._unnoticed("what an entry is compiled for"):
                self._book.compiled(attempt)

    def found(self, outcome: Outcome) -> dict[str, Any]:
        """Plain data: by compile id, what each cached entry said."""
        return {
            "refused": {key: [asdict(one) for one in met] for key, met in self._found.items()},
            "unknown": self._unknown,
            "torch": torch_version(),
        }

    def _begun(self, attempt: hooks.Attempt) -> None:
        if self._book is None or attempt.code is not self._book.code:
            return
        self._met.append(())
        with self._unnoticed("the guards of a cached entry"):
            self._met[-1] = self._book.refused(attempt)

    @contextmanager
    def _unnoticed(self, what: str) -> Iterator[None]:
        """Taking notes must not change what becomes of the frame: a failure to is noted, and told at the end."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - another torch, or a value that raises when it is read
            note = f"{what}: {type(error).__name__}: {error}"
            if note not in self._unknown:
                self._unknown.append(note)
