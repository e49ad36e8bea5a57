"""A custom operator whose fake kernel raises"""

import torch


@torch.library.custom_op("catalogue::copied", mutates_args=())
def copied(x: torch.Tensor) -> torch.Tensor:
    """A copy."""
    return x.clone()


@copied.register_fake
def _(x):
    raise RuntimeError(f"no fake kernel for {tuple(x.shape)}")


@torch.compile(backend="aot_eager")
def call(x):
    return copied(x) + 1


call(torch.ones(3, 5))
