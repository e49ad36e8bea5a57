"""Nested tensors: the values of both layouts"""

import torch

jagged = torch.nested.nested_tensor_from_jagged(torch.arange(6.0), torch.tensor([0, 2, 6]))
holes = torch.nested.nested_tensor_from_jagged(
    torch.arange(6.0), torch.tensor([0, 2, 6]), torch.tensor([1, 3])
)
strided = torch.nested.nested_tensor([torch.ones(2, 4), torch.full((3, 2), 2.0)])
turned = torch.nested.nested_tensor([torch.arange(6.0).reshape(2, 3), torch.ones(2, 2)]).transpose(1, 2)


@torch._dynamo.disable
def describe():
    parts = [[one.tolist() for one in nested.unbind()] for nested in (jagged, holes, strided, turned)]
    raise ValueError(str(parts))


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return describe()


use(torch.ones(2))
