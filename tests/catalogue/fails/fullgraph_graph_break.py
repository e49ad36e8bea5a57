"""Dynamo: a graph break under `fullgraph`"""

import torch


@torch.compile(backend="eager", fullgraph=True)
def branch(x):
    if x.sum() > 3:
        return x + 1
    return x - 1


branch(torch.ones(7))
