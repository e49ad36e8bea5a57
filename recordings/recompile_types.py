"""A scale that is a whole number, a fraction, a tensor, a flag or nothing at all, as each caller has it."""
# record: {"on": "recompile"}

import torch


@torch.compile(backend="eager")
def scaled(x, scale=None):
    y = x + 1
    return y if scale is None else y * scale


x = torch.ones(3)
for scale in (2, 0.5, torch.tensor(3.0), None, True):
    scaled(x, scale)
