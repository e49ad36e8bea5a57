"""A decoding loop that gives its step as a plain number, compiled for fixed numbers: each step is compiled anew."""
# record: {"on": "recompile"}

import torch


@torch.compile(backend="eager", dynamic=False)
def decode(hidden, step):
    return hidden * 0.5 + step


hidden = torch.ones(4)
for step in range(8):
    hidden = decode(hidden, step)
