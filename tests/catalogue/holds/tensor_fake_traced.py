"""Fake tensors as arguments of a compiled function, inside their mode"""

import torch
from torch._subclasses import FakeTensorMode


@torch.compile(backend="eager")
def use(x, y):
    return x.sin() @ y


with FakeTensorMode():
    use(torch.empty(2, 3), torch.empty(4, 5))
