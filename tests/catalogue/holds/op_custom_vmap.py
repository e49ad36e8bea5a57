"""A `custom_op` with `register_vmap`, under `torch.vmap` in the frame"""

import torch


@torch.library.custom_op("catalogue::cubed", mutates_args=())
def cubed(x: torch.Tensor) -> torch.Tensor:
    return x**3


@cubed.register_fake
def _(x):
    return torch.empty_like(x)


@cubed.register_vmap
def _(info, in_dims, x):
    return cubed(x.movedim(in_dims[0], 0)).repeat(1, info.batch_size), 0


@torch.compile(backend="aot_eager")
def use(x):
    return torch.vmap(cubed)(x) @ torch.ones(4)


use(torch.ones(3, 5))
