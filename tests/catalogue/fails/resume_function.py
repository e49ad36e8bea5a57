"""A resume function: the failure comes after a graph break"""

import torch


@torch.compile(backend="eager")
def steps(x, weights):
    y = x * 2
    torch._dynamo.graph_break()
    for weight in weights:
        y = y @ weight
    return y


steps(torch.ones(2, 3), [torch.ones(3, 4), torch.ones(4, 6), torch.ones(7, 8)])
