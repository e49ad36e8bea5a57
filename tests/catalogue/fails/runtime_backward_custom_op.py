"""Compiled code raises while it runs: a custom operator, backward"""

import torch


@torch.library.custom_op("catalogue::gradient_of", mutates_args=())
def gradient_of(x: torch.Tensor) -> torch.Tensor:
    """Raises with what it was given."""
    raise ValueError(f"no gradient today for {tuple(x.shape)}")


@gradient_of.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("catalogue::identity", mutates_args=())
def identity(x: torch.Tensor) -> torch.Tensor:
    """A copy."""
    return x.clone()


@identity.register_fake
def _(x):
    return torch.empty_like(x)


identity.register_autograd(lambda ctx, gradient: gradient_of(gradient))


@torch.compile(backend="aot_eager")
def loss(x, factor):
    return identity(x).sum() * factor


loss(torch.ones(5, requires_grad=True), 3).backward()
