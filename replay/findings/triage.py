"""Frozen data: what triage says of a bundle. Plain values only, as in `replay.recording`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from replay.recording import Difference, Drift, ErrorInfo, Event, Missing, Status, UserFrame

Fault = Literal[
    "user_code",  # it fails without torch.compile as well
    "dynamo",
    "aot_autograd",
    "decompositions",  # or the partitioner
    "inductor_lowering",
    "inductor",  # another part of it, or the code that it generated
    "cpp_compiler",
    "triton_compiler",
    "backend",  # the recorded one, which is no rung of the ladder
    "numerics",  # wrong numbers; Triage.layer says whose
    "recompile_limit",
    "recompile",
    "graph_break",
    "none",  # nothing fails here
    "unknown",  # what would decide it is missing here
]
"""What is at fault."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One replay of the ladder, as a row."""

    backend: str
    status: Status | Literal["refused"]
    how: str = ""  # other than the other rungs: "backward", "fake", the way into the compiler
    error: ErrorInfo | None = None
    seconds: float = 0.0  # of the whole replay, without what starts its process
    graphs: int = 0
    breaks: int = 0
    difference: Difference | None = None  # of wrong numbers
    reason: str = ""  # of a recompilation: the guard that failed, in torch's words
    missing: tuple[Missing, ...] = ()
    notes: tuple[str, ...] = ()
    drift: tuple[Drift, ...] = ()
    refused: str = ""  # why it was not run
    options: Mapping[str, Any] = field(default_factory=dict)  # as `replay.run` takes them

    @property
    def name(self) -> str:
        """The backend, and what is special about the rung."""
        return f"{self.backend}, {self.how}" if self.how else self.backend


@dataclass(frozen=True, slots=True)
class Bisected:
    """What torch's CompilerBisector came to."""

    backend: str  # in which it searched
    subsystem: str | None = None  # torch's word: "lowerings", "post_grad_passes"; None: none of them
    number: int | None = None  # how often the subsystem was applied until it went wrong
    what: str = ""  # torch's name for that application: a pass, a node of the graph
    operator: str = ""  # of that node: "aten.where.self"
    place: UserFrame | None = None  # the line of the program that the node came from
    steps: int = 0  # replays that it took
    others: int = 0  # of them failed otherwise, and were counted as failing
    seconds: float = 0.0
    gave_up: str = ""  # why there is no result, or none but the subsystem


@dataclass(frozen=True, slots=True)
class Triage:
    """What is at fault, and the replays that show it."""

    bundle: str
    function: str
    event: Event
    fault: Fault
    sentence: str  # the verdict, one line
    layer: str = ""  # whose numbers are wrong, or what fails, for people: "Inductor"
    rung: str | None = None  # the name of the lowest rung that shows it
    place: UserFrame | None = None  # the line of the program, where it is known
    rungs: tuple[Rung, ...] = ()
    bisected: Bisected | None = None
    notes: tuple[str, ...] = ()  # what a reader of the sentence should know
    drift: tuple[Drift, ...] = ()
    recorded_error: ErrorInfo | None = None
    seconds: float = 0.0  # of the whole triage
