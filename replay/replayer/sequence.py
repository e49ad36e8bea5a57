"""Repeating a recorded sequence: every call that compiled the frame, first to last, with one compiled function.

What each call does is told from what the hooks see of it, and from whether the frame's own code ran, uncompiled.
Nothing is judged here but whether the recorded compilations came again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from replay.recording import CallInfo, CallOutcome, Manifest
from replay.replayer import earlier, plan
from replay.replayer.preparation import Prepared
from replay.torch_adapter import events, failures, fakes, hooks, state


def is_recorded(prepared: Prepared) -> bool:
    """Whether the bundle is of a sequence that can be repeated here."""
    task = prepared.task
    return (
        task.manifest.sequence is not None
        and task.compiles
        and prepared.subject is prepared.root["function"]
        and len(prepared.root["calls"]) == len(task.manifest.calls)
    )


@dataclass(slots=True)
class _Step:
    """One call, while it is going on."""

    recorded: str
    attempts: list[hooks.Attempt] = field(default_factory=list)  # of the frame itself
    fingerprints: list[tuple[str, str]] = field(default_factory=list)
    elsewhere: float = 0.0  # seconds spent compiling what the frame goes on in: resume functions, callees
    uncompiled: bool = False
    error: str = ""

    def outcome(self) -> CallOutcome:
        compiled = any(one.fate == "compiled" for one in self.attempts)
        last = self.attempts[-1] if self.attempts else None
        fingerprint, reason = self.fingerprints[-1] if self.fingerprints else ("", "")
        reasons = last.reasons if last is not None else ()
        return CallOutcome(
            fate="compiled" if compiled else "uncompiled" if self.uncompiled or last is not None else "hit",
            compile_id="" if last is None else last.compile_id or "",
            fingerprint=fingerprint,
            reasons=reasons or ((reason,) if reason else ()),
            limit="" if last is None else failures.limit_name(last.error),
            seconds=sum(one.seconds for one in self.attempts) + self.elsewhere,
            error=self.error,
            recorded=self.recorded,
        )


class Repetition:
    """One repetition of a sequence. `calls` grows while it goes on."""

    def __init__(self, prepared: Prepared) -> None:
        self.calls: list[CallOutcome] = []
        self._prepared = prepared
        self._code = prepared.subject.__code__
        self._step: _Step | None = None
        self._paused: list[Any] = []  # profilers of this thread, while it compiles
        self._planned = plan.of(prepared)
        self._last = max(at for at, one in enumerate(self._planned) if one.recorded in plan.COMPILER)

    def begin(self, attempt: hooks.Attempt) -> None:
        """Called ahead of every attempt to compile a frame: to watch the compiler at work would slow it down."""
        self._paused.append(sys.getprofile())
        sys.setprofile(None)

    def observe(self, attempt: hooks.Attempt) -> None:
        """Called after every attempt to compile a frame."""
        if self._paused and attempt.fate != "refused" and attempt.entry is None:  # those were not begun
            sys.setprofile(self._paused.pop())
        if self._step is None:
            return
        if attempt.code is not self._code:
            self._step.elsewhere += attempt.seconds
            return
        self._step.attempts.append(attempt)
        if events.is_recompile(attempt) or failures.is_limit(attempt.error):
            self._step.fingerprints.append(events.describe_recompile(attempt))

    def lead(self, function: Callable[..., Any]) -> None:
        """The calls before the last one that came to the compiler."""
        for one in self._planned[: self._last]:
            self._make(function, one)

    def trail(self, function: Callable[..., Any]) -> None:
        """The calls after it, if they were recorded."""
        for one in self._planned[self._last + 1 :]:
            self._make(function, one)

    def _make(self, function: Callable[..., Any], one: plan.Planned) -> None:
        """One call. Over synthetic values it may fail; the next one is made all the same."""
        with suppress(Exception), self._step_of(one.recorded), self._as_then(one.call):
            positional, keywords = one.arguments()
            function(*positional, **keywords)

    def step(self) -> AbstractContextManager[Any]:
        """Around the last call that came to the compiler."""
        return self._step_of(self._planned[self._last].recorded)

    @contextmanager
    def _step_of(self, recorded: str) -> Iterator[None]:
        """Around a call. What it raises is noted, and goes on."""
        self._step = step = _Step(recorded)
        with _watching(self._code, step):
            try:
                yield
            except Exception as error:
                if not isinstance(error, fakes.StoppedError):
                    step.error = f"{type(error).__name__}: {error}".partition("\n")[0]
                raise
            finally:
                self._step = None
                self.calls.append(step.outcome())

    @contextmanager
    def _as_then(self, call: Mapping[str, Any]) -> Iterator[None]:
        """The values and the state of an earlier call."""
        task = self._prepared.task
        with ExitStack() as stack:
            if call["state"]:
                recorded = {**task.manifest.state, **call["state"]}
                recorded.pop("generators", None)
                task.drift += stack.enter_context(state.applied(recorded, task.device))
            stack.enter_context(state.grad(bool(call["grad"])))
            stack.enter_context(earlier.as_then(call["before"], self._prepared.root["function"]))
            stack.enter_context(task.place.running(backward=False))
            yield


@contextmanager
def _watching(code: CodeType, step: _Step) -> Iterator[None]:
    """Whether the frame's own code runs, not what was compiled of it. A profiler of the program's is kept."""
    before = sys.getprofile()

    def profile(frame: FrameType, event: Any, argument: Any) -> None:
        if event == "call" and frame.f_code is code:
            step.uncompiled = True
        if before is not None:
            before(frame, event, argument)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


Same = Callable[[str, str], bool]
"""Whether a recorded fingerprint and one that was seen mean the same."""


def recorded_calls(manifest: Manifest) -> tuple[CallInfo, ...]:
    """The calls of a recorded sequence, the last one with them."""
    assert manifest.sequence is not None
    return (*manifest.calls, manifest.sequence.last)


def missed(manifest: Manifest, seen: Sequence[CallOutcome], same: Same) -> tuple[int, list[int]]:
    """How many calls were to compile the frame again or to hit a limit, and which of them did something else.

    The first call that is recorded finds nothing compiled in a replay, so it is not asked.
    """
    asked, other = 0, []
    compiling = [one for one in seen if one.recorded in plan.COMPILER]
    for number, (one, found) in enumerate(zip(recorded_calls(manifest), compiling, strict=False)):
        if number == 0 or not one.fingerprint:
            continue
        asked += 1
        if bool(one.limit) != bool(found.limit) or not same(one.fingerprint, found.fingerprint):
            other.append(number)
    return asked, other
