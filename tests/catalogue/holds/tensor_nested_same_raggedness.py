"""Nested tensors that share one raggedness"""

import torch

offsets = torch.tensor([0, 2, 6])
one = torch.nested.nested_tensor_from_jagged(torch.ones(6, 3), offsets)
two = torch.nested.nested_tensor_from_jagged(torch.ones(6, 3), offsets)


@torch.compile(backend="aot_eager")
def use(one, two):
    return (one + two).values() @ torch.ones(5)


use(one, two)
