"""Masked tensors of torch.masked"""

import torch
from torch.masked import masked_tensor

given = masked_tensor(torch.tensor([4.0, 5.0, 6.0]), torch.tensor([True, False, True]))


@torch._dynamo.disable
def describe():
    raise ValueError(
        f"{type(given).__name__} {given.get_data().tolist()} {given.get_mask().tolist()} {given.sum()}"
    )


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return describe()


use(torch.ones(2))
