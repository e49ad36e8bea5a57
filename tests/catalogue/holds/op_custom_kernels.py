"""A `custom_op` with a kernel for each device, that writes to its argument"""

import torch


@torch.library.custom_op("catalogue::fill_with", mutates_args=("x",), device_types="cuda")
def fill_with(x: torch.Tensor, value: float) -> None:
    x.fill_(value * 100)


@fill_with.register_kernel("cpu")
def _(x, value):
    x.fill_(value)


@torch.compile(backend="aot_eager")
def use(x):
    fill_with(x, 7.0)
    return torch.arange(3)[x.sum().long().reshape(1)]


use(torch.ones(3))
