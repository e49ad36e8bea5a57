"""A lazy module that is first called in a compiled frame"""

import torch


@torch.compile(backend="eager")
def use(model, x):
    return model(x) @ torch.ones(4)


use(torch.nn.Sequential(torch.nn.LazyLinear(5), torch.nn.LazyBatchNorm1d()), torch.ones(2, 3))
