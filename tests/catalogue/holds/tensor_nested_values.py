"""Nested tensors: the values of both layouts"""
import torch

jagged = torch.nested.nested_tensor_from_jagged(torch.arange(6.0), torch.tensor([0, 2, 6]))
strided = torch.nested.nested_tensor([torch.ones(2, 4), torch.full((3, 2), 2.0)])


@torch._dynamo.disable
def numbers(jagged, strided):
    assert [tuple(one.shape) for one in strided.unbind()] == [(2, 4), (3, 2)]
    parts = [one.sum() * (at + 1) for at, one in enumerate([*jagged.unbind(), *strided.unbind()])]
    return sum(parts)


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return x[numbers(jagged, strided).long().reshape(1)]


use(torch.ones(2))
