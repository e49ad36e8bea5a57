"""A frame that compiles and runs (`on="all"`)"""
# record: {"on": "all"}
# expects: passed

import torch


@torch.compile(backend="aot_eager")
def step(x, weight):
    return (x @ weight).relu().sum()


step(torch.randn(4, 3), torch.randn(3, 2, requires_grad=True)).backward()
