"""A compiled function under `torch.vmap`: its arguments belong to a transform that was running"""

import torch


@torch.compile(backend="eager")
def use(x):
    return x @ torch.ones(x.shape[0] + 1)


torch.vmap(use)(torch.ones(4, 3))
