"""An autograd.Function in the frame, with `setup_context`; its values"""

import torch

FACTOR = 3.0


class Scale(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, by):
        return x * by * FACTOR

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.by = inputs[1]
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.by, None


@torch.compile(backend="aot_eager", fullgraph=True)
def use(x):
    return torch.arange(3)[Scale.apply(x, 2.0).sum().long().reshape(1)]


use(torch.ones(2, requires_grad=True))
