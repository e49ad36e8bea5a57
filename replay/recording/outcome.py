"""Frozen data: what a replay's outcome says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from replay.recording.comparison import Comparison
from replay.recording.failure import Difference, ErrorInfo, Status
from replay.recording.manifest import Missing


@dataclass(frozen=True, slots=True)
class FrameOutcome:
    """What the replay saw of one code object."""

    function: str
    file: str
    line: int
    compiles: int
    graph_breaks: int
    seconds: float  # spent compiling
    graphs: int = 0  # that a backend compiled


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What one call of a recorded sequence did in the replay."""

    fate: Literal["compiled", "hit", "uncompiled"]  # `hit`: code that was compiled before fitted
    compile_id: str = ""  # of a call that came to the compiler
    fingerprint: str = ""  # of one that compiled the frame again, or was to
    reasons: tuple[str, ...] = ()  # torch's words: for each cached entry the first guard that failed
    limit: str = ""  # the limit that it hit
    seconds: float = 0.0  # spent compiling
    error: str = ""  # what came out of the call: type and first line; empty where nothing did
    recorded: str = (
        ""  # what the recorded call did: "compiled", "limit", or of calls that were counted another CallFate
    )


@dataclass(frozen=True, slots=True)
class Drift:
    """One thing that differs between the recording's environment and this one."""

    name: str  # "torch", "config.inductor.cpp.cxx", "threads"
    recorded: str
    here: str


@dataclass(frozen=True, slots=True)
class Artifacts:
    """The files that a replay has left, where it was asked to."""

    directory: str
    files: tuple[str, ...]  # relative to it, with forward slashes


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a replay; `replay.run` returns it and `--json` prints it."""

    bundle: str
    status: Status
    backend: str
    function: str
    error: ErrorInfo | None
    recorded_error: ErrorInfo | None
    frames: tuple[FrameOutcome, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)  # load, compile, run, total
    drift: tuple[Drift, ...] = ()
    missing: tuple[Missing, ...] = ()
    reason: str = ""  # of a recompile that happened again: the guard that failed, in torch's words
    recorded_reason: str = ""  # of a recorded recompile
    difference: Difference | None = None  # of wrong numbers, as measured here
    comparison: Comparison | None = None  # of the whole frame, where one was asked for
    notes: tuple[str, ...] = ()  # what a reader of the verdict should know
    artifacts: Artifacts | None = None
    calls: tuple[CallOutcome, ...] = ()  # of a recorded sequence, in its order
