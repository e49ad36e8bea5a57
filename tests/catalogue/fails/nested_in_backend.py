"""A backend that compiles something of its own, which fails"""

import torch


def measure(x):
    return x @ torch.ones(8)


def backend(graph, example_inputs):
    torch.compile(measure, backend="eager", fullgraph=True)(example_inputs[0])
    return graph.forward


@torch.compile(backend=backend)
def outer(x):
    return x.cos() + 1


outer(torch.ones(3))
