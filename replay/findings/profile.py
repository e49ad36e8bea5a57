"""Frozen data: what a profile says. Times are seconds, sizes are bytes; nothing here measures or formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from replay.recording import ErrorInfo, UserFrame

PHASES: Mapping[str, str] = {
    "dynamo": "Dynamo: reading the bytecode",
    "guards": "Dynamo: guards",
    "aot": "AOTAutograd: tracing, decompositions",
    "partitioner": "AOTAutograd: partitioner",
    "backend": "the backend, not told apart",
    "passes": "Inductor: passes over the graph",
    "lowering": "Inductor: lowering",
    "scheduling": "Inductor: scheduling and fusion",
    "codegen": "Inductor: code generation",
    "processor": "asking what the processor can do",
    "compiler": "C++ or Triton compiler",
    "autotuning": "autotuning",
    "caches": "caches: keys, look-ups, loading",
    "imports": "importing modules (not compiling)",
    "other": "not timed by torch",
    "run": "outside the compiler: the first run",
}
"""A phase of a first call -> what it is, in the order of a compilation."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """A call that compiled, from its start to its end, backward included where there is one."""

    seconds: float  # wall clock
    phases: Mapping[str, float]  # by the keys of PHASES; they add up to `seconds`
    aside: float = 0.0  # spent by compilers in other threads meanwhile; in no phase
    caches: Mapping[str, int] = field(
        default_factory=dict
    )  # hits, misses and bypasses that torch has counted: "fxgraph_cache_hit"
    graphs: int = 0  # that were compiled, or loaded from a cache

    @property
    def compiling(self) -> float:
        """Seconds without imports and without the first run."""
        return self.seconds - self.phases.get("imports", 0.0) - self.phases.get("run", 0.0)


@dataclass(frozen=True, slots=True)
class Timing:
    """Many runs of what is compiled already."""

    runs: int
    median: float
    low: float  # a quarter of the runs took at most this
    high: float  # a quarter of the runs took at least this
    fastest: float


@dataclass(frozen=True, slots=True)
class Hotspot:
    """An operator or a kernel in one run, without what it calls."""

    name: str
    device: str  # "cpu", "cuda"
    calls: float  # in a run
    seconds: float  # of its own, in a run, under torch's profiler
    share: float  # of all that this device did: 0 to 1
    places: tuple[UserFrame, ...] = ()  # the user's lines that a kernel computes, where torch knows


@dataclass(frozen=True, slots=True)
class Measured:
    """A frame under one backend, or uncompiled. What could not be measured is None."""

    backend: str
    load: float = 0.0  # importing torch, loading the frame
    cold: Compilation | None = None  # in a fresh process with empty caches
    warm: Compilation | None = None  # in a second process that finds the caches of the first
    again: Compilation | None = None  # in the first process, after torch forgot what it had compiled
    forward: Timing | None = None
    backward: Timing | None = None
    speedup: Mapping[str, float] = field(default_factory=dict)  # uncompiled / this, of "forward", "backward"
    peak: int | None = None  # bytes that a run allocates, at its highest; without its inputs
    hotspots: tuple[Hotspot, ...] = ()  # most time first
    error: ErrorInfo | None = None
    refused: str = ""  # why it was not replayed at all
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there is no run time of it."""
        return self.forward is None


@dataclass(frozen=True, slots=True)
class Profile:
    """What `replay.profile` returns."""

    bundle: str
    function: str
    recorded: str  # the backend of the recording
    rows: tuple[Measured, ...]  # in the order in which they were measured
    notes: tuple[str, ...] = ()
    trace: str | None = None  # the file with the trace, if one was asked for
    status: str = ""  # where nothing could be measured: of the recorded backend's replay, else of the last

    @property
    def measured(self) -> bool:
        """Whether any row has a run time."""
        return any(not row.failed for row in self.rows)
