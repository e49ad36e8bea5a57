"""Listen to Dynamo while it traces a frame: graphs as the backend gets them, guards, inlined functions.

Methods of torch's are exchanged while somebody listens, and put back afterwards; what they do stays the same. What is
said of a graph or a guard is taken down in `dissection` and `conditions`. Nothing here judges or writes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from replay.findings.explanation import Graph, GuardInfo
from replay.torch_adapter import conditions, dissection, features
from replay.torch_adapter.patching import patched, wrapped_compiler


@dataclass(slots=True)
class Traced:
    """What was heard of the frame that is being compiled, since the last `clear`."""

    graphs: list[Graph] = field(default_factory=list)
    unfinished: Graph | None = None  # of a trace that ended before its graph went to a backend
    guards: list[GuardInfo] = field(default_factory=list)
    codes: list[CodeType] = field(default_factory=list)  # traced into, in order, the frame's own among them
    root: CodeType | None = None
    unknown: list[str] = field(default_factory=list)  # what torch did not tell
    made: int = 0  # graphs since the beginning

    def clear(self) -> None:
        """Forget the frame; the next one begins."""
        self.graphs, self.guards, self.codes = [], [], []
        self.unfinished, self.root = None, None


@contextmanager
def listening() -> Iterator[Traced]:
    """Everything that Dynamo traces inside is told to what this yields, in the compiling thread."""
    traced = Traced()
    with ExitStack() as stack:
        stack.enter_context(wrapped_compiler(functools.partial(_compile, traced)))
        stack.enter_context(_ends_of_traces(traced))
        stack.enter_context(_guards(traced))
        yield traced


def _compile(traced: Traced, original: Callable[..., Any], output: Any, gm: Any, inputs: Any) -> Any:
    """Around the backend's call: it may change the graph, so that it is read before."""
    with _unnoticed(traced, f"graph {traced.made}"):
        traced.graphs.append(dissection.describe_graph(gm, number=traced.made, inputs=inputs))
    traced.made += 1
    return original(gm, inputs)


@contextmanager
def _unnoticed(traced: Traced, what: str) -> Iterator[None]:
    """Taking notes must not change what becomes of the frame: a failure to is noted, and told at the end."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever values and names of the user's raise when they are read
        _note(traced, f"{what}: describing it raised {type(error).__name__}: {error}")


@contextmanager
def _ends_of_traces(traced: Traced) -> Iterator[None]:
    """Hear of each trace that ends, whether it succeeded, failed, or is to be begun again."""
    owner = features.require(features.module("torch._dynamo.output_graph"), "OutputGraph")
    original = features.require(owner, "cleanup")

    @functools.wraps(original)
    def cleanup(self: Any) -> Any:
        with _unnoticed(traced, "the end of a trace"):
            _end(traced, self)
        return original(self)

    with patched(owner, "cleanup", cleanup):
        yield


def _end(traced: Traced, output: Any) -> None:
    translator = getattr(output, "root_tx", None)
    traced.root = getattr(translator, "f_code", None) or traced.root
    codes = getattr(getattr(output, "tracing_context", None), "traced_code", None)
    if codes is None:
        _note(traced, "inlined functions: this torch does not list them")
    else:
        traced.codes = list(codes)
    if traced.graphs:
        traced.unfinished = None
    else:
        graph = dissection.describe_graph(output, number=traced.made, finished=False)
        traced.unfinished = graph if graph.ops or graph.inputs else None


@contextmanager
def _guards(traced: Traced) -> Iterator[None]:
    """Hear of a frame's guards when its check function is made."""
    owner = features.require(features.module("torch._dynamo.guards"), "CheckFunctionManager")
    original = features.require(owner, "__init__")

    @functools.wraps(original)
    def __init__(  # noqa: N807 - its name in tracebacks
        self: Any, f_code: CodeType, output_graph: Any, *args: Any, **kwargs: Any
    ) -> None:
        original(self, f_code, output_graph, *args, **kwargs)
        with _unnoticed(traced, "guards"):
            noted = features.require(output_graph, "guards")
            files = {code.co_filename for code in (f_code, *traced.codes)}
            manager = features.require(self, "guard_manager")
            traced.guards = conditions.describe_guards(manager, sorted(noted), sorted(files))

    with patched(owner, "__init__", __init__):
        yield


def _note(traced: Traced, what: str) -> None:
    if what not in traced.unknown:
        traced.unknown.append(what)
