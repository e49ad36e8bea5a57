"""AOTAutograd fails: the backward of a custom operator gives a gradient of a shape that cannot be."""

import torch


@torch.library.custom_op("survey::smooth", mutates_args=())
def smooth(x: torch.Tensor, strength: float) -> torch.Tensor:
    return x * strength


@smooth.register_fake
def _(x, strength):
    return torch.empty_like(x)


def remember(ctx, inputs, output):
    ctx.strength = inputs[1]


def backward(ctx, grad):
    return grad @ torch.ones(3, 3) * ctx.strength, None


smooth.register_autograd(backward, setup_context=remember)


@torch.compile(backend="aot_eager")
def loss(x):
    return smooth(x, 0.5).sum()


loss(torch.randn(2, 7, requires_grad=True))
