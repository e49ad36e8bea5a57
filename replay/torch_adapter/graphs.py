"""torch.fx's graphs node by node, and what torch.jit has compiled: taken apart into plain objects, and made again.

Nothing is traced again: a graph comes back with the nodes, names and order that it had. What travels how is decided in
`replay.shipping.graphs`.
"""

from __future__ import annotations

import copy
import functools
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from replay.torch_adapter import features
from replay.torch_adapter.undisturbed import undisturbed

NOT_STATE = frozenset({"_graph", "_code", "_lineno_map", "_prologue_start", "meta"})
"""Attributes of a GraphModule that making its code anew sets, and notes that a tracer left."""

NOTES = ("locals_to_steal",)
"""Notes that are kept: Dynamo takes these lists of a captured backward as one input each."""

Node = tuple[str, str, Any, Any, Any, Any, str]
"""Operation, name, target, arguments, keywords, annotated type, and the lines of the user's that it came from."""


def is_graph_module(cls: type) -> bool:
    """Whether a class of modules is that of a graph; each graph has one of its own."""
    return any(base.__module__ == "torch.fx.graph_module" for base in cls.__mro__)


def is_scripted(cls: type) -> bool:
    """Whether a class of modules is torch.jit's."""
    return any(base.__module__ == "torch.jit._script" for base in cls.__mro__)


def graph_parts(
    module: Any, reference: Callable[[int], Any]
) -> tuple[Any, str, dict[str, Any], list[Node], Any]:
    """Class, name, attributes, nodes and code generator. `reference` stands for the node of a number."""
    cls = type(module)
    graph = module.graph
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    convert = features.require(features.module("torch.fx.node"), "map_arg")

    def plain(arguments: Any) -> Any:
        return _mutable(convert(arguments, lambda node: reference(numbers[node])))

    nodes = [
        (
            *(node.op, node.name, node.target, plain(node.args), plain(node.kwargs), node.type),
            str(node.meta.get("stack_trace") or ""),
        )
        for node in graph.nodes
    ]
    state = {name: value for name, value in module.__dict__.items() if name not in NOT_STATE}
    state["meta"] = {name: module.meta[name] for name in NOTES if name in module.meta}
    generator = features.require(graph, "_codegen")
    plain_generator = type(generator).__name__ == "CodeGen"
    return cls.__bases__[0], cls.__name__, state, nodes, None if plain_generator else generator


def _mutable(value: Any) -> Any:
    """The plain containers that fx's immutable ones stand for."""
    if isinstance(value, tuple) and type(value) is not tuple and not hasattr(value, "_fields"):
        return tuple(map(_mutable, value))
    if type(value) is tuple:
        return tuple(map(_mutable, value))
    if isinstance(value, list):
        return [_mutable(one) for one in value]
    if isinstance(value, dict):
        return {key: _mutable(one) for key, one in value.items()}
    if isinstance(value, slice):
        return slice(*map(_mutable, (value.start, value.stop, value.step)))
    return value


def make_graph_module(base: Any, name: str) -> Any:
    """A module without attributes, whose graph is empty."""
    torch = features.module("torch")
    made = base.__new__(base)
    type(made).__name__ = name
    torch.nn.Module.__init__(made)
    made.meta = {}
    return made


def fill_graph_module(
    module: Any,
    state: Mapping[str, Any],
    nodes: Sequence[Node],
    generator: Any,
    number_of: Callable[[Any], Any],
) -> None:
    """Give a module its attributes and its graph. `number_of` tells which node a reference stands for, else None."""
    fx = features.module("torch.fx")
    aggregate = features.require(features.module("torch.fx.node"), "map_aggregate")
    module.__dict__.update(state)
    graph = fx.Graph(owning_module=module, tracer_cls=state.get("_tracer_cls"))
    made: list[Any] = []

    def real(arguments: Any) -> Any:
        def lookup(one: Any) -> Any:
            number = number_of(one)
            return one if number is None else made[number]

        return aggregate(arguments, lookup)

    for op, name, target, args, kwargs, kind, lines in nodes:
        node = graph.create_node(op, target, real(args), real(kwargs), name, kind)
        if lines:
            node.meta["stack_trace"] = lines
        made.append(node)
    if generator is not None:
        graph.set_codegen(generator)
    module._graph = graph
    module.recompile()


def higher_order_name(operator: Any) -> str:
    """The name of a higher-order operator."""
    return str(features.require(operator, "_name"))


def higher_order(name: str) -> Any:
    """The higher-order operator of a name."""
    known = features.require(features.module("torch._ops"), "_higher_order_ops")
    features.module("torch._higher_order_ops")
    return known[name]


def scripted_parts(module: Any) -> tuple[bytes, dict[str, Any]]:
    """A scripted module as torch.jit saves it, its tensors without bytes; and these tensors, by name."""
    torch = features.module("torch")
    tensors = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
    stream = io.BytesIO()
    with undisturbed():
        bare = copy.deepcopy(module)
        for name, tensor in tensors.items():
            _put(bare, name, torch.empty_like(tensor, device="meta"))
        torch.jit.save(bare, stream)
    return stream.getvalue(), tensors


def make_scripted(code: bytes, tensors: Mapping[str, Any]) -> Any:
    """The module with its tensors put in."""
    torch = features.module("torch")
    with undisturbed():
        module = torch.jit.load(io.BytesIO(code))
        for name, tensor in tensors.items():
            _put(module, name, tensor)
    return module


def _put(module: Any, name: str, tensor: Any) -> None:
    *path, last = name.split(".")
    owner = functools.reduce(getattr, path, module)
    features.require(owner, "_c").setattr(last, tensor)


def scripted_function_type() -> Any:
    """The class of functions that torch.jit has compiled."""
    return features.module("torch").jit.ScriptFunction


def scripted_function_parts(function: Any) -> tuple[str, str]:
    """Name, and its graph as text."""
    return str(function.name), str(function.inlined_graph)


def make_scripted_function(name: str, graph: str) -> Any:
    """The function, from its graph."""
    native = features.require(features.module("torch"), "_C")
    parsed = features.require(native, "parse_ir")(graph)
    return features.require(native, "_create_function_from_graph")(name, parsed)
