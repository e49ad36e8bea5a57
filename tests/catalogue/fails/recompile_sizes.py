"""A second size: the frame is compiled again (`on="recompile"`)"""
# record: {"on": "recompile"}

import torch


@torch.compile(backend="eager")
def step(x, factor):
    return x * factor + 1


step(torch.ones(3), 2.5)
step(torch.ones(5), 2.5)
