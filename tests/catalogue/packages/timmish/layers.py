"""Layers."""

from functools import partial

import torch.nn.functional as F
from torch import nn

_ACT = {"gelu": nn.GELU, "relu": partial(nn.ReLU, inplace=True)}


def get_act(name):
    """A layer by name."""
    return _ACT[name]


class LayerNorm2d(nn.LayerNorm):
    """Over channels."""

    _fast: bool = True

    def __init__(self, channels, eps=1e-6):
        super().__init__(channels, eps=eps)

    def forward(self, x):
        x = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


def drop_path(x, p: float = 0.0, training: bool = False):
    """Nothing, while it is evaluated."""
    if p == 0.0 or not training:
        return x
    return x * x.new_empty(x.shape[0], *[1] * (x.dim() - 1)).bernoulli_(1 - p)


class DropPath(nn.Module):
    """As above."""

    def __init__(self, p=0.1):
        super().__init__()
        self.p = p

    def forward(self, x):
        return drop_path(x, self.p, self.training)
