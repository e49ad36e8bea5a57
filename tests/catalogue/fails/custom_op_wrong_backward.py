"""A custom operator with a wrong backward, found while compiling"""

import torch


@torch.library.custom_op("catalogue::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    """Twice the input."""
    return x * 2


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


doubled.register_autograd(lambda ctx, gradient: gradient.reshape(2, 2) @ gradient.reshape(1, 4))


@torch.compile(backend="aot_eager")
def loss(x):
    return doubled(x).sum()


loss(torch.ones(4, requires_grad=True))
