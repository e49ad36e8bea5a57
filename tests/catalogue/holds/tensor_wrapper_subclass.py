"""A wrapper subclass with `__torch_dispatch__`, as argument and as global"""

import torch
from torch.utils._pytree import tree_map_only


class Pair(torch.Tensor):
    @staticmethod
    def __new__(cls, left, right, unit):
        return torch.Tensor._make_wrapper_subclass(cls, left.shape, dtype=left.dtype, device=left.device)

    def __init__(self, left, right, unit):
        self.left, self.right, self.unit = left, right, unit

    def __tensor_flatten__(self):
        return ["left", "right"], self.unit

    @staticmethod
    def __tensor_unflatten__(inner, unit, outer_size, outer_stride):
        return Pair(inner["left"], inner["right"], unit)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        unit = next(one.unit for one in args if isinstance(one, cls))
        left = function(*tree_map_only(cls, lambda one: one.left, args), **(kwargs or {}))
        right = function(*tree_map_only(cls, lambda one: one.right, args), **(kwargs or {}))
        return cls(left, right, unit) if isinstance(left, torch.Tensor) else left


OFFSET = Pair(torch.full((2, 3), 0.5), torch.full((2, 3), 1.5), "km")


@torch.compile(backend="aot_eager")
def add(pair):
    both = pair + OFFSET
    index = both.right.sum() + both.left.sum()
    return torch.arange(len(both.unit))[index.long().reshape(1)]


add(Pair(torch.ones(2, 3), torch.full((2, 3), 4.0), "metre"))
