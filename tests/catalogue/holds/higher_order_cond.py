"""`torch.cond` with branches that close over tensors and modules"""

import torch

scale = torch.full((3,), 2.0)
layer = torch.nn.Linear(3, 3)


@torch.compile(backend="eager", fullgraph=True)
def use(x):
    offset = x.sum()

    def yes(x):
        return layer(x) * scale + offset

    def no(x):
        return layer(x) - scale

    return torch.cond(x.sum() > 0, yes, no, (x,)) @ torch.ones(scale.shape[0] + 1)


use(torch.ones(2, 3))
