"""Which events a block records, and what an attempt to compile a frame amounts to in their terms.

Decides what makes a bundle; writes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replay import source
from replay.errors import UsageError
from replay.recording import Difference, ErrorInfo, Event
from replay.torch_adapter import events, failures, hooks

EVENTS = ("failure", "graph_break", "recompile", "accuracy", "all")
"""What `record(on=...)` accepts."""

ALL = ("failure", "graph_break", "recompile", "success")
"""What "all" stands for: every frame that is compiled. Comparing numbers is asked for by its own name."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that a bundle is made of."""

    event: Event
    error: ErrorInfo | None
    signature: str = ""  # the fingerprint where there is no error
    reason: str = ""
    difference: Difference | None = None
    sequence: str = ""  # the fingerprint of a frame that was compiled again, whatever the reasons are

    @property
    def kind(self) -> str:
        """A short name: the exception's, or the event's."""
        if self.event == "failure" and self.error is not None:
            return self.error.type.rpartition(".")[2]
        return self.event

    @property
    def fingerprint(self) -> str:
        """What makes two happenings the same."""
        return self.signature if self.error is None else self.error.fingerprint

    @property
    def family(self) -> str:
        """The same, but that of a frame that is compiled again the frame alone counts, and no reason."""
        return self.sequence or self.fingerprint


def chosen(on: str | Sequence[str]) -> frozenset[str]:
    """The events that `on` names. UsageError for a word that is none."""
    names = (on,) if isinstance(on, str) else tuple(on)
    for name in names:
        if name not in EVENTS:
            raise UsageError(f"record(on={name!r}): must be one of {', '.join(EVENTS)}")
    if not names:
        raise UsageError(f"record(on={on!r}): name at least one of {', '.join(EVENTS)}")
    return frozenset(event for name in names for event in (ALL if name == "all" else (name,)))


def of_attempt(attempt: hooks.Attempt, wanted: frozenset[str]) -> Iterator[Happening]:
    """What to record of an attempt. A frame that compiled and did nothing else is a success."""
    found = False
    for one in _breaks(attempt, wanted):
        found = True
        yield one
    error = _failure(attempt, wanted)
    if error is not None:
        yield error
    if is_in_sequence(attempt, wanted):
        signature, reason = events.describe_recompile(attempt)
        yield Happening("recompile", None, signature, reason, sequence=events.frame_fingerprint(attempt.code))
    elif error is None and attempt.fate == "compiled" and "success" in wanted and not found:
        yield Happening("success", None, "success")


def is_in_sequence(attempt: hooks.Attempt, wanted: frozenset[str]) -> bool:
    """Whether an attempt is one more call of a sequence: it compiled a frame again, or hit the limit for that."""
    return "recompile" in wanted and (events.is_recompile(attempt) or failures.is_limit(attempt.error))


def identity(attempt: hooks.Attempt, happening: Happening) -> str:
    """What one block counts as one happening.

    The fingerprint and, where it holds no line of the program (a backend's error, a limit), the function.
    """
    if attempt.error is not None and happening.error is not None and failures.real_stack(attempt.error):
        return happening.fingerprint
    return f"{happening.family} {source.qualified_name(attempt.code)} {attempt.code.co_firstlineno}"


def _breaks(attempt: hooks.Attempt, wanted: frozenset[str]) -> Iterator[Happening]:
    if "graph_break" in wanted:
        infos = {info.fingerprint: info for info in map(events.describe_break, attempt.breaks)}
        for info in infos.values():
            yield Happening("graph_break", info)


def _failure(attempt: hooks.Attempt, wanted: frozenset[str]) -> Happening | None:
    error = attempt.error
    if error is None or not isinstance(error, Exception) or failures.is_skip(error):
        return None
    soft = attempt.fate == "graph_break" and not failures.is_limit(error)
    event: Event = "graph_break" if soft else "failure"
    if event not in wanted:
        return None
    return Happening(
        event, failures.describe(error, stage="graph_break" if soft else None, code=attempt.code)
    )
