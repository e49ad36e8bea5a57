"""A function that torch.func transformed before it was compiled, and one that it transforms afterwards"""

import torch
from torch import func

weights = torch.ones(3, 4)


def score(x):
    return (x @ weights).sum()


transformed = func.vmap(func.grad_and_value(score))


@torch.compile(backend="aot_eager")
def use(x):
    gradient, value = transformed(x)
    return gradient @ torch.ones(value.shape[0])


use(torch.ones(5, 3))
