"""Nested tensors of the jagged layout, with a gradient, and with a ragged dimension in the middle"""

import torch

values = torch.arange(24.0).reshape(6, 4).requires_grad_()
made = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 2, 6]))
other = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged)


@torch.compile(backend="aot_eager")
def use(one, two):
    y = one.sin() * 2
    both = torch.cat([y.values(), two.values()])
    return both @ torch.ones(one.offsets().shape[0] + two.shape[0])


use(made.detach(), other)
