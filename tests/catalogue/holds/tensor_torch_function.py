"""A tensor subclass with `__torch_function__` and attributes of its own"""

import torch


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


tagged = torch.arange(6.0).reshape(2, 3).as_subclass(Tagged)
tagged.size_of_batch = 7
tagged.scale = torch.full((3,), 4.0)


@torch.compile(backend="eager", fullgraph=True)
def use(x):
    y = x * x.scale
    return y @ torch.ones(x.size_of_batch)


use(tagged)
