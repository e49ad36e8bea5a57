"""Graphs of torch.fx, node by node, and what torch.jit has compiled.

A user's function in a graph travels like any other. How a graph is read and made is in `replay.torch_adapter.graphs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.loading import Loading, builder
from replay.shipping.placeholders import Placeholder
from replay.torch_adapter import graphs


@dataclass(frozen=True, slots=True)
class NodeNumber:
    """Stands in a node's arguments for another node of its graph."""

    number: int


def reduce_node_number(dumping: Dumping, node: NodeNumber) -> Reduced:
    """By its number."""
    return make_node_number, (node.number,)


@builder
def make_node_number(loading: Loading, number: int) -> NodeNumber:
    """What stands for a node."""
    return NodeNumber(number)


def reduce_graph_module(dumping: Dumping, module: Any) -> Reduced:
    """Its class first, because what it holds may refer to it."""
    base, name, state, nodes, generator = graphs.graph_parts(module, NodeNumber)
    return make_graph_module, (base, name), (state, nodes, generator), None, None, fill_graph_module


@builder
def make_graph_module(loading: Loading, base: Any, name: str) -> Any:
    """The module, still empty."""
    return graphs.make_graph_module(base, name)


def _number_of(one: Any) -> int | None:
    return one.number if type(one) is NodeNumber else None


@builder
def fill_graph_module(loading: Loading, module: Any, state: Reduced) -> None:
    """Its attributes at once, its code when the functions in its graph have theirs."""
    if not isinstance(module, Placeholder):
        attributes, nodes, generator, *_ = state
        graphs.fill_graph_module(module, attributes, nodes, generator, _number_of)


def reduce_higher_order(dumping: Dumping, operator: Any) -> Reduced:
    """A higher-order operator by its name."""
    return make_higher_order, (graphs.higher_order_name(operator),)


@builder
def make_higher_order(loading: Loading, name: str) -> Any:
    """The operator that this torch has under the name."""
    return graphs.higher_order(name)


def reduce_scripted_module(dumping: Dumping, module: Any) -> Reduced:
    """As torch.jit saves it, but for its tensors."""
    return make_scripted_module, graphs.scripted_parts(module)


@builder
def make_scripted_module(loading: Loading, code: bytes, tensors: dict[str, Any]) -> Any:
    """The scripted module."""
    return graphs.make_scripted(code, tensors)


def reduce_scripted_function(dumping: Dumping, function: Any) -> Reduced:
    """By its graph; the Python function that it was made of is among its attributes."""
    state = (dict(function.__dict__),)
    return (
        make_scripted_function,
        graphs.scripted_function_parts(function),
        state,
        None,
        None,
        fill_scripted_function,
    )


@builder
def make_scripted_function(loading: Loading, name: str, graph: str) -> Any:
    """The compiled function."""
    return graphs.make_scripted_function(name, graph)


@builder
def fill_scripted_function(loading: Loading, function: Any, state: Reduced) -> None:
    """Give it its attributes."""
    if not isinstance(function, Placeholder):
        function.__dict__.update(state[0])
