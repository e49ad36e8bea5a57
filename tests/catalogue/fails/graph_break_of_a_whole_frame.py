"""A loop that Dynamo gives up on: the whole frame runs uncompiled (`on="graph_break"`)"""
# record: {"on": "graph_break"}

import torch


@torch.compile(backend="eager")
def step(x, times):
    for _ in range(times):
        torch._dynamo.graph_break()
        x = x + 1
    return x


step(torch.ones(3), 2)
