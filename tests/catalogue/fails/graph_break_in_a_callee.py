"""A graph break inside a function that is called (`on="graph_break"`)"""
# record: {"on": "graph_break"}

import torch


def report(x):
    print("rows:", len(x))
    return x + 1


@torch.compile(backend="eager")
def step(x):
    return report(x * 2) * 3


step(torch.ones(3))
