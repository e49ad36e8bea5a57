"""Tensors that are views: of an argument, of something that is gone, with dynamic shapes, and computed ones"""

import torch

base = torch.arange(60.0).reshape(10, 6)
weight = torch.ones(6, 6, requires_grad=True)


@torch.compile(backend="eager", dynamic=True)
def use(whole, part, computed, other):
    y = whole.sum() + part.sum()
    return computed @ other + y


use(base, base[2:5], (weight * 2)[1:].t()[:, :4], torch.ones(30)[5:12])
