"""Lazy modules, uninitialized parameters, non-persistent buffers and `nn.Buffer`"""

import copy

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lazy = nn.LazyLinear(5)
        self.waiting = nn.UninitializedParameter(dtype=torch.float64)
        self.later = nn.UninitializedBuffer()
        self.register_buffer("mask", torch.ones(5), persistent=False)
        self.kept = nn.Buffer(torch.ones(5))
        self.dropped = nn.Buffer(torch.ones(5), persistent=False)
        self.register_parameter("none", None)


@torch._dynamo.disable
def describe(model):
    uninitialized = [type(model.lazy).__name__, type(model.waiting).__name__, str(model.waiting.dtype)]
    names = [sorted(dict(model.named_buffers())), sorted(model._non_persistent_buffers_set)]
    lazy = copy.deepcopy(model.lazy)
    lazy(torch.ones(2, 3))
    raise ValueError(f"{uninitialized} {names} {tuple(lazy.weight.shape)} {type(lazy).__name__}")


@torch.compile(backend="eager")
def use(x, model):
    x = x + 1
    return describe(model)


use(torch.ones(2), Model())
