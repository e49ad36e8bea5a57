"""A graph break in a callee; its resume function fails"""

import torch


def inner(x, scale):
    y = x.sin()
    print("rows:", y.shape[0])
    return y.reshape(scale, -1)


@torch.compile(backend="eager")
def outer(x):
    y = x + 1
    return inner(y, 4) * 2


outer(torch.ones(6))
