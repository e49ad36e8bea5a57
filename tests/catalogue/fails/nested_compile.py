"""A compiled function that runs another one, which has a backend of its own"""

import torch


def refuse(graph, example_inputs):
    raise NotImplementedError(f"inner graph of {len(graph.graph.nodes)} nodes")


@torch.compile(backend=refuse)
def inner(x):
    return x.sin()


@torch._dynamo.disable
def plain(x):
    return inner(x)


@torch.compile(backend="eager")
def outer(x):
    return plain(x * 2) + 1


outer(torch.ones(3))
