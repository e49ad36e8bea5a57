"""Objects of a backward graph: the `ctx` of an autograd.Function, and what compiled autograd captures.

The graph itself never travels: a tensor's `grad_fn` belongs to the call that made it. torch's private names are in
`replay.torch_adapter`.
"""

from __future__ import annotations

from typing import Any

from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.loading import Loading, builder
from replay.shipping.placeholders import Placeholder
from replay.shipping.plain import fill_plain
from replay.torch_adapter import backward_nodes, objects


def reducer_for(cls: type) -> Any:
    """The reducer for one of these classes, None for any other."""
    if backward_nodes.is_operator(cls):
        return reduce_backward_node
    return reduce_context if objects.is_context(cls) else None


def reduce_captured(dumping: Dumping, module: Any) -> Reduced:
    """The graph module of a captured backward: without its nodes, which refer to what has no name to import."""
    return make_captured, (), (objects.without_graph(module), {}), None, None, fill_plain


def reduce_backward_node(dumping: Dumping, node: Any) -> Reduced:
    """An operator of compiled autograd by its name."""
    return make_backward_node, (node.__name__,)


@builder
def make_backward_node(loading: Loading, name: str) -> Any:
    """The operator of that name."""
    return backward_nodes.operator(name)


@builder
def make_captured(loading: Loading) -> Any:
    """A graph module without nodes: the frame holds the captured graph as code."""
    import torch

    return torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())


def reduce_context(dumping: Dumping, context: Any) -> Reduced:
    """The `ctx` of a user's autograd.Function, with the attributes that its forward has set; not the graph it is in."""
    return make_context, (objects.function_of(context),), dict(context.__dict__), None, None, fill_context


@builder
def make_context(loading: Loading, function: Any) -> Any:
    """A context as `apply` makes one."""
    return function if isinstance(function, Placeholder) else objects.make_context(function)


@builder
def fill_context(loading: Loading, context: Any, attributes: dict[str, Any]) -> None:
    """Set what the forward has set."""
    if not isinstance(context, Placeholder):
        context.__dict__.update(attributes)
