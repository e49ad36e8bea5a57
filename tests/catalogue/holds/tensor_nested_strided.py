"""A nested tensor of the strided layout as an argument, which Dynamo refuses under `fullgraph`"""

import torch


@torch.compile(backend="eager", fullgraph=True)
def use(x, length):
    return torch.nested.to_padded_tensor(x, 0.0) @ torch.ones(length)


use(torch.nested.nested_tensor([torch.ones(2, 4), torch.full((3, 4), 2.0)]), 5)
