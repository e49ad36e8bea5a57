"""einops, shipped: a cached parser, backends found among the subclasses of a class"""
# needs: einops
# record: {"ship": ["einops"]}
# hides: einops

import torch
from einops import rearrange, repeat
from einops.layers.torch import Rearrange

LAYER = Rearrange("b (h w) -> b h w", h=2)


@torch.compile(backend="eager")
def call(x):
    y = LAYER(x)
    z = repeat(rearrange(y, "b h w -> (b h) w"), "a w -> a w c", c=3)
    return z.reshape(z.shape[0], -1, 4)


call(torch.ones(3, 10))
