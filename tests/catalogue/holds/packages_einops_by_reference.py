"""einops, not shipped, and absent on replay"""
# needs: einops
# hides: einops
# expects: missing
# names: einops

import torch
from einops import rearrange


@torch.compile(backend="eager")
def call(x):
    return rearrange(x, "a b -> (a b)").reshape(4, -1)


call(torch.ones(3, 5))
