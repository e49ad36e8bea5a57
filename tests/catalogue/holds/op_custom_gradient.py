"""A `custom_op` with `register_autograd`, several outputs, and a backward that fails"""

import torch


@torch.library.custom_op("catalogue::halves", mutates_args=())
def halves(x: torch.Tensor, at: int) -> tuple[torch.Tensor, torch.Tensor]:
    return x[:at].clone(), x[at:].clone()


@halves.register_fake
def _(x, at):
    return x.new_empty(at), x.new_empty(x.shape[0] - at)


def setup(ctx, inputs, output):
    ctx.at = inputs[1]


def backward(ctx, left, right):
    return torch.cat([left, right]) @ torch.ones(ctx.at), None


halves.register_autograd(backward, setup_context=setup)


@torch.compile(backend="aot_eager")
def use(x):
    left, right = halves(x, 2)
    return left.sum() * right.sum()


use(torch.ones(5, requires_grad=True)).backward()
