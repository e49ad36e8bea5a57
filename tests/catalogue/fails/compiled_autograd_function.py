"""Compiled autograd: a user's autograd.Function with a wrong backward"""

import torch
from torch._dynamo import compiled_autograd


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad @ torch.ones(ctx.factor * 5) + x, None


hidden = Scale.apply(torch.nn.Linear(3, 4)(torch.ones(2, 3)), 7)
loss = torch.nn.functional.cross_entropy(torch.nn.LayerNorm(4)(hidden).relu(), torch.tensor([1, 2]))
with compiled_autograd._enable(lambda graph: torch.compile(graph, backend="eager", fullgraph=True)):
    loss.backward()
