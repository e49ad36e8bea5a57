"""Wrong numbers in a gradient alone: the user's backend forgets a factor (`on="accuracy"`)"""
# record: {"on": "accuracy"}

import torch
from torch._dynamo.backends.common import aot_autograd


def forgetful(graph, example_inputs):
    for node in list(graph.graph.nodes):
        if node.target is torch.ops.aten.cos.default:  # of the derivative of sin
            node.target = torch.ops.aten.relu.default
    graph.recompile()
    return graph


@torch.compile(backend=aot_autograd(fw_compiler=lambda graph, inputs: graph, bw_compiler=forgetful))
def loss(x, weight):
    return (x * weight).sin().sum()


loss(torch.linspace(-2, 2, 9), torch.linspace(1, 2, 9, requires_grad=True)).backward()
