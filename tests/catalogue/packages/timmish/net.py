"""A small network."""

from collections import OrderedDict
from functools import partial

from torch import nn

from .layers import DropPath, LayerNorm2d, get_act
from .registry import Settings, register_model

default_cfgs = {"mini_net": Settings(), "mini_net_large": Settings(classes=10)}


class Block(nn.Module):
    """Depthwise, norm, act."""

    def __init__(self, width, norm_layer, act_layer):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm, self.act, self.drop = norm_layer(width), act_layer(), DropPath(0.1)

    def forward(self, x):
        return x + self.drop(self.act(self.norm(self.conv(x))))


class MiniNet(nn.Module):
    """Stem, stages, head."""

    def __init__(self, width=7, depth=2, classes=1000, act="relu", norm_layer=None):
        super().__init__()
        norm_layer = norm_layer or partial(LayerNorm2d, eps=1e-5)
        self.num_features = width
        self.stem = nn.Sequential(OrderedDict(conv=nn.Conv2d(2, width, 1), norm=norm_layer(width)))
        self.stages = nn.Sequential(*[Block(width, norm_layer, get_act(act)) for _ in range(depth)])
        self.head = nn.Linear(width, classes) if classes else nn.Identity()

    def forward_features(self, x):
        return self.stages(self.stem(x))

    def forward(self, x):
        return self.head(self.forward_features(x).mean((-2, -1)))


def _create(variant, **values):
    return MiniNet(**{"depth": 3 if variant.endswith("large") else 2, **values})


@register_model
def mini_net(**values):
    """Small."""
    return _create("mini_net", **values)


@register_model
def mini_net_large(**values):
    """Large."""
    return _create("mini_net_large", **values)
