"""Frozen data: what the compiler made of a frame. Plain values only, as in `replay.recording`.

Nothing here runs, formats or imports torch: the replaying process fills these in, reports and JSON read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from replay.recording import ErrorInfo, Outcome, UserFrame


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as the compiler sees it: sizes may be symbols."""

    dtype: str  # torch's name: "float32"
    shape: tuple[str, ...]  # "4", or an expression over symbols: "s77 + 1"
    device: str
    requires_grad: bool = False


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of a graph."""

    name: str  # the node's, unique in its graph
    target: str  # "torch.sin", "Tensor.sum", "aten.add.Tensor"
    stack: tuple[
        UserFrame, ...
    ] = ()  # the lines it came from, outermost first; empty where torch does not know
    output: TensorInfo | None = None  # None: no single tensor, or not known
    within: str = ""  # the subgraph that holds it, where there is one


@dataclass(frozen=True, slots=True)
class GraphInput:
    """One input of a graph, and where each call takes it from."""

    name: str
    kind: str  # "tensor", "parameter", "buffer", "number", "attribute" (held by the graph itself), "other"
    source: str  # "L['x']"; empty where torch does not say
    type: str  # the class's name: "Tensor", "Parameter", "SymInt"
    tensor: TensorInfo | None = None
    value: str = ""  # of a number: the symbol


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size that may differ from call to call."""

    name: str  # "s77"
    hint: str  # its value in the replayed call; empty where there is none (unbacked)
    range: str  # "[2, int_oo]"
    sources: tuple[str, ...] = ()  # "L['x'].size()[0]"


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph that Dynamo made."""

    number: int  # in the order of the replay, from 0
    inputs: tuple[GraphInput, ...]
    ops: tuple[Op, ...]
    outputs: tuple[GraphInput, ...]  # `source` is empty
    symbols: tuple[Symbol, ...] = ()
    finished: bool = True  # False: tracing failed, and this is how far it came


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """Where Dynamo stopped tracing a frame, and why."""

    reason: str  # torch's text, whole
    kind: str  # its name for it; the first line where it has none
    explanation: str = ""  # in torch's words, where it has some
    hints: tuple[str, ...] = ()
    context: str = ""  # "developer debug context"
    stack: tuple[UserFrame, ...] = ()  # outermost first
    whole_frame: bool = False  # the frame runs uncompiled from its beginning


@dataclass(frozen=True, slots=True)
class GuardInfo:
    """What must hold for the compiled code to be used again."""

    source: str  # "L['x']"; empty for global state
    kind: str  # torch's: "TENSOR_MATCH"
    code: tuple[str, ...]  # the conditions, in torch's words
    place: UserFrame | None = None  # the line that made it necessary


@dataclass(frozen=True, slots=True)
class Inlined:
    """A function that was traced into the frame."""

    function: str  # qualified name
    file: str
    line: int  # its first
    last_line: int
    times: int
    of_torch: bool = False


@dataclass(frozen=True, slots=True)
class ExplainedFrame:
    """What became of one attempt to compile a frame."""

    function: str
    file: str
    line: int  # its first
    last_line: int
    compile_id: str | None
    fate: (
        str  # "compiled", "skipped", "raised", "suppressed", "graph_break", "refused"; "traced": by an export
    )
    seconds: float
    graphs: tuple[Graph, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    guards: tuple[GuardInfo, ...] = ()
    inlined: tuple[Inlined, ...] = ()
    error: ErrorInfo | None = None
    resume_of: str | None = None  # the function that it resumes after a graph break


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the compiler made of a bundle's frame, and of the frames that it led to."""

    bundle: str
    function: str
    backend: str
    torch: str  # the version that explained; empty where it could not start
    outcome: Outcome
    frames: tuple[ExplainedFrame, ...] = ()
    unknown: tuple[str, ...] = ()  # what this torch did not tell
    notes: tuple[str, ...] = ()  # of the explanation; the outcome has its own
    texts: Mapping[str, str] = field(default_factory=dict)  # file -> its recorded text, of the frames' files

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """Every graph that was finished, in order."""
        return tuple(one for frame in self.frames for one in frame.graphs if one.finished)

    @property
    def breaks(self) -> tuple[GraphBreak, ...]:
        """Every graph break, in order."""
        return tuple(one for frame in self.frames for one in frame.breaks)
