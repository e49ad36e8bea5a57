"""Hooks of tensors: `register_hook` on leaf and non-leaf, `register_post_accumulate_grad_hook`"""
import torch

x = torch.ones(3, requires_grad=True)
x.register_hook(lambda grad: grad * 2)
def accumulated(one):
    one.grad.add_(10)


x.register_post_accumulate_grad_hook(accumulated)
weight = torch.nn.Parameter(torch.ones(3))
weight.register_hook(lambda grad: grad + 5)


@torch._dynamo.disable
def gradient(x, weight):
    x.grad = weight.grad = None
    (x * weight).sum().backward()
    return x.grad.sum() + 100 * weight.grad.sum()


@torch.compile(backend="eager")
def use(y, x, weight):
    y = y + 1
    return y[gradient(x, weight).long().reshape(1)]


use(torch.ones(2), x, weight)
