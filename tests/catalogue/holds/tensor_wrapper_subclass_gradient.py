"""A wrapper subclass of wrapper subclasses that requires a gradient"""

import torch
from torch.utils._pytree import tree_map_only


class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, scale):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner, scale):
        self.inner, self.scale = inner, scale

    def __repr__(self):
        return (
            f"Scaled({self.scale}, {self.inner.scale})"
            if isinstance(self.inner, Scaled)
            else f"Scaled({self.scale})"
        )

    def __tensor_flatten__(self):
        return ["inner"], {"scale": self.scale}

    @staticmethod
    def __tensor_unflatten__(inner, context, outer_size, outer_stride):
        return Scaled(inner["inner"], context["scale"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        scale = next(one.scale for one in args if isinstance(one, cls))
        out = function(*tree_map_only(cls, lambda one: one.inner, args), **(kwargs or {}))
        return tree_map_only(torch.Tensor, lambda one: cls(one, scale), out)


@torch.compile(backend="aot_eager", fullgraph=True)
def multiply(x, y):
    return x * x.scale + y + torch.ones(x.inner.scale)


leaf = Scaled(Scaled(torch.ones(2, 3), 7), 5).requires_grad_()
multiply(leaf, leaf * 2)
