"""An `autograd.Function` whose backward returns a wrong shape"""

import torch


class Wrong(torch.autograd.Function):
    """Its gradient has a row too many."""

    @staticmethod
    def forward(ctx, x):
        ctx.rows = x.shape[0]
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient.new_ones(ctx.rows + 1, gradient.shape[1])


@torch.compile(backend="aot_eager")
def loss(x):
    return Wrong.apply(x).sum()


loss(torch.ones(3, 4, requires_grad=True)).backward()
