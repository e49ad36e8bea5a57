"""A tensor subclass without code of its own: its values, its strides and what it is a view of"""

import torch


class Plain(torch.Tensor):
    pass


base = torch.arange(12.0)
view = base[2:].as_strided((2, 3), (1, 3)).as_subclass(Plain)


@torch.compile(backend="eager")
def use(x, base):
    base[2] = 40
    y = x.sum() * x.stride(1)
    return torch.arange(3)[y.as_subclass(torch.Tensor).long().reshape(1)]


use(view, base)
