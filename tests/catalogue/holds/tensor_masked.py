"""Masked tensors of torch.masked"""
import torch
from torch.masked import masked_tensor

given = masked_tensor(torch.tensor([4.0, 5.0, 6.0]), torch.tensor([True, False, True]))


@torch._dynamo.disable
def total(masked):
    return masked.get_data().sum() * 10 + masked.get_mask().sum()


@torch.compile(backend="eager")
def use(x, masked):
    x = x + 1
    return x[total(masked).long().reshape(1)]


use(torch.ones(2), given)
