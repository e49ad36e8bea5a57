"""What the hooks report while a frame is replayed: errors, frames, time. Decides no verdict."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from replay import isolation, source
from replay.recording import CallOutcome, Difference, ErrorInfo, FrameOutcome
from replay.torch_adapter import events, failures, hooks, interception, later


@dataclass(slots=True)
class Seen:
    """What the hook reported during the replay."""

    errors: list[ErrorInfo] = field(default_factory=list)  # all of them, graph breaks too
    failures: list[ErrorInfo] = field(default_factory=list)  # those that are no mere graph breaks
    traces: dict[int, Any] = field(default_factory=dict)
    names: dict[bool, set[str]] = field(default_factory=lambda: {True: set(), False: set()})
    _frames: dict[CodeType, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0.0, 0]))
    suppressed: bool = False  # an error was hidden by suppress_errors
    subject: CodeType | None = None  # of the function that is replayed
    breaks: int = 0  # graph breaks that torch had counted at the last look
    graphs: int = 0  # compiled graphs, the same
    recompiles: list[tuple[str, str]] = field(default_factory=list)  # fingerprint and reason
    calls: tuple[CallOutcome, ...] | None = None  # of a recorded sequence, if it was repeated
    differences: dict[int, Difference] = field(default_factory=dict)  # wrong numbers, by their error's id
    unsure: list[str] = field(default_factory=list)  # what could not be compared, and why
    _exceptions: list[BaseException] = field(default_factory=list)

    def observe(self, attempt: hooks.Attempt) -> None:
        """Called after every attempt to compile a frame."""
        breaks, graphs = hooks.graph_breaks(), hooks.graphs()
        tally = self._frames[attempt.code]
        tally[0] += attempt.fate == "compiled"
        tally[1] += max(0, breaks - self.breaks)
        tally[2] += attempt.seconds
        tally[3] += max(0, graphs - self.graphs)
        self.breaks, self.graphs = breaks, graphs
        for one in attempt.breaks:
            self.errors.append(events.describe_break(one))
        if events.is_recompile(attempt):
            self.recompiles.append(events.describe_recompile(attempt))
        error = attempt.error
        self.suppressed |= attempt.fate == "suppressed"
        if isinstance(error, Exception) and not failures.is_skip(error) and not self.reported(error):
            soft = attempt.fate == "graph_break"
            info = failures.describe(error, stage="graph_break" if soft else None, code=attempt.code)
            self._exceptions.append(error)
            self.add(info, error, failure=not soft or info.stage == "recompile_limit")
        isolation.announce("run")

    def observe_backward(self, compile_id: str, error: BaseException) -> None:
        """Called when a backward graph fails to compile late."""
        if isinstance(error, Exception) and not self.reported(error):
            self._exceptions.append(error)
            self.add(failures.describe(error, stage="backward", code=self.subject), error)

    def observe_difference(self, found: Difference, before: interception.Snapshot) -> None:
        """Called when a compiled graph has computed something else than uncompiled code."""
        running = next(hooks.live_frames(), None)
        self.add_difference(found, self.subject if running is None else running.code)

    def add_difference(
        self, found: Difference, code: CodeType | None, unlike: tuple[str, str] | None = None
    ) -> None:
        """Keep wrong numbers of a frame; `unlike`: what was there instead, where it is no matter of numbers."""
        if code is not None:
            info = events.describe_difference(found, code, unlike)
            self.errors.append(info)
            self.failures.append(info)
            self.differences[id(info)] = found

    def add_run(self, error: BaseException) -> None:
        """An error that came out of the call: of running code, unless the hooks have seen it."""
        if self.reported(error):
            return
        trace = later.place_of(error)
        self.add(failures.describe(error, stage="runtime", code=self.subject, trace=trace), error)

    def add(self, info: ErrorInfo, error: BaseException, *, failure: bool = True) -> None:
        """Keep an error; `failure` false: a mere graph break."""
        self.errors.append(info)
        if failure:
            self.failures.append(info)
        self.traces[id(info)] = error.__traceback__

    def reported(self, error: BaseException) -> bool:
        """Whether the hook has seen this exception already, or one that it was raised from."""
        return any(error is one for one in self._exceptions)

    def frames(self) -> list[FrameOutcome]:
        """What became of each code object, in the order of their first compilation."""
        return [
            FrameOutcome(
                function=source.qualified_name(code),
                file=code.co_filename,
                line=code.co_firstlineno,
                compiles=int(tally[0]),
                graph_breaks=int(tally[1]),
                seconds=tally[2],
                graphs=int(tally[3]),
            )
            for code, tally in self._frames.items()
        ]
