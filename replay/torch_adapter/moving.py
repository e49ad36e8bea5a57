"""A program that names CUDA, compiled and run on the CPU: the device's name becomes "cpu" on the way.

Where the frame's code says `device="cuda"`, `.cuda()` or `autocast("cuda")`, Dynamo traces the CPU instead, and
the graph that it hands to the backend says so too. Code that runs uncompiled is not reached.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from replay.torch_adapter import features
from replay.torch_adapter.patching import patched, wrapped_compiler

_NAME = re.compile(r"^cuda(:\d+)?$")


@contextmanager
def to_cpu(met: set[str]) -> Iterator[None]:
    """While inside, what is compiled uses the CPU wherever it names CUDA; `met` gets the names."""

    def compile_moved(original: Callable[..., Any], graph: Any, gm: Any, inputs: Any) -> Any:
        move_graph(gm)
        return original(gm, inputs)

    with ExitStack() as stack:
        stack.enter_context(_tracing(met))
        stack.enter_context(_cuda_method(met))
        stack.enter_context(_autocasting(met))
        stack.enter_context(wrapped_compiler(compile_moved))
        yield


def moved(value: Any, met: set[str] | None = None) -> Any:
    """The CPU for a CUDA device or its name, which goes into `met`; anything else as it is."""
    torch = features.module("torch")
    device = isinstance(value, torch.device) and value.type == "cuda"
    if not device and not (isinstance(value, str) and _NAME.match(value)):
        return value
    if met is not None:
        met.add(str(value))
    return torch.device("cpu") if device else "cpu"


@contextmanager
def _tracing(met: set[str]) -> Iterator[None]:
    """The fake tensors that Dynamo traces with are made on the CPU."""
    owner = features.require(features.module("torch._subclasses.fake_tensor"), "FakeTensorMode")
    original = features.require(owner, "__torch_dispatch__")

    @functools.wraps(original)
    def __torch_dispatch__(  # noqa: N807 - its name in tracebacks
        self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = {name: moved(value, met) for name, value in (kwargs or {}).items()}
        return original(self, func, types, tuple(moved(one, met) for one in args), given)

    with patched(owner, "__torch_dispatch__", __torch_dispatch__):
        yield


@contextmanager
def _cuda_method(met: set[str]) -> Iterator[None]:
    """`x.cuda()`, while Dynamo traces it."""
    fake_tensor = features.require(features.module("torch._subclasses.fake_tensor"), "FakeTensor")

    def cuda(self: Any, *_: Any, **__: Any) -> Any:
        met.add("cuda")
        return self.cpu()

    with patched(fake_tensor, "cuda", cuda):
        yield


@contextmanager
def _autocasting(met: set[str]) -> Iterator[None]:
    """Autocast of CUDA is autocast of the CPU, with CUDA's own default type."""
    torch = features.module("torch")
    owner = torch.amp.autocast
    original = owner.__init__

    @functools.wraps(original)
    def __init__(  # noqa: N807 - its name in tracebacks
        self: Any, device_type: str, dtype: Any = None, *rest: Any, **kwargs: Any
    ) -> None:
        if device_type == "cuda":
            met.add(device_type)
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
        original(self, device_type, dtype, *rest, **kwargs)

    with patched(owner, "__init__", __init__):
        yield


def move_graph(gm: Any) -> None:
    """Rewrite a graph, and the graphs inside it, in place: every CUDA device becomes the CPU."""
    fx = features.module("torch.fx")
    for module in gm.modules():
        if not isinstance(module, fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if node.op == "call_method" and node.target == "cuda":
                node.target, node.args, node.kwargs = "cpu", node.args[:1], {}
            node.args = fx.node.map_aggregate(node.args, moved)
            node.kwargs = fx.node.map_aggregate(node.kwargs, moved)
        module.recompile()
