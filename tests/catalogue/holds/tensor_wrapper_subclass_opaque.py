"""A wrapper subclass without `__tensor_flatten__`, with its tensors in a list and in a slot"""

import torch


class Stack(torch.Tensor):
    __slots__ = ("first",)

    @staticmethod
    def __new__(cls, parts):
        return torch.Tensor._make_wrapper_subclass(cls, (len(parts), *parts[0].shape), dtype=parts[0].dtype)

    def __init__(self, parts):
        self.parts, self.first = parts, parts[0]

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function in (torch.sum, torch.Tensor.sum):
            return sum(part.sum() for part in args[0].parts) + args[0].first.sum()
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError(f"{function} of a stack of {len(args[0].parts)}")


@torch._dynamo.disable
def describe(stack):
    assert stack.first is stack.parts[0]
    raise ValueError(f"{tuple(stack.shape)} {int(torch.sum(stack))}")


@torch.compile(backend="eager")
def use(x, stack):
    x = x + 1
    return describe(stack)


use(torch.ones(2), Stack([torch.full((3,), 2.0), torch.full((3,), 3.0)]))
