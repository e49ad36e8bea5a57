"""A compiled function that is inlined into another one, whose backend refuses"""

import torch


def refuse(graph, example_inputs):
    raise NotImplementedError(f"outer graph of {len(graph.graph.nodes)} nodes")


@torch.compile(backend="eager")
def inner(x):
    return x.sin()


@torch.compile(backend=refuse)
def outer(x):
    return inner(x) + 1


outer(torch.ones(3))
