"""A context as a value: autocast"""

import torch

cast = torch.autocast("cpu", dtype=torch.bfloat16)


@torch.compile(backend="eager", fullgraph=True)
def use(x, weight):
    with cast, torch.no_grad():
        y = x @ weight
    return y @ torch.ones(3, 1, dtype=torch.float64)


use(torch.ones(2, 2), torch.ones(2, 3, requires_grad=True))
