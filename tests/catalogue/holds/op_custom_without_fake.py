"""A `custom_op` without a fake, which Dynamo therefore cannot trace"""

import torch


@torch.library.custom_op("catalogue::nofake", mutates_args=())
def nofake(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


@torch.compile(backend="eager", fullgraph=True)
def use(x):
    return nofake(x, 2.0) + 1


use(torch.ones(3))
