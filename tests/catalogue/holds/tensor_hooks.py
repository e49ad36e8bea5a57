"""Hooks of tensors: `register_hook` and `register_post_accumulate_grad_hook`"""

import torch


def accumulated(one):
    one.grad.add_(10)


x = torch.ones(3, requires_grad=True)
x.register_hook(lambda grad: grad * 2)
x.register_post_accumulate_grad_hook(accumulated)
weight = torch.nn.Parameter(torch.ones(3))
weight.register_hook(lambda grad: grad + 5)


@torch._dynamo.disable
def gradients():
    x.grad = weight.grad = None
    (x * weight).sum().backward()
    raise ValueError(f"{x.grad.tolist()} {weight.grad.tolist()}")


@torch.compile(backend="eager")
def use(y):
    y = y + 1
    return gradients()


use(torch.ones(2))
