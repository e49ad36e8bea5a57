"""A branch on a tensor's value (`on="graph_break"`)"""
# record: {"on": "graph_break"}

import torch


@torch.compile(backend="eager")
def step(x, factor):
    if x.sum() > 0:
        return x * factor
    return x - factor


step(torch.ones(3), 4)
