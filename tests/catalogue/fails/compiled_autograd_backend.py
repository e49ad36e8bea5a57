"""Compiled autograd: the backend refuses the captured backward"""

import torch


def refuse(graph, example_inputs):
    if any("Backward" in str(node.target) for node in graph.graph.nodes):
        raise NotImplementedError(f"{len(graph.graph.nodes)} nodes of a backward")
    return graph.forward


with torch._dynamo.config.patch(compiled_autograd=True):

    @torch.compile(backend=refuse)
    def train(x):
        x.sin().sum().backward()
        return x.grad

    train(torch.ones(3, requires_grad=True))
