"""A graph break inside a function that the compiled one calls."""
# record: {"on": "graph_break", "only": "step"}

import torch


def report(x):
    print("rows:", len(x))
    return x + 1


@torch.compile(backend="eager")
def step(x):
    return report(x * 2) * 3


step(torch.ones(3))
