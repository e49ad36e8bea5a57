"""Contexts as values: autocast, no_grad, a profiler's record_function"""

import torch

cast = torch.autocast("cpu", dtype=torch.bfloat16)
quiet = torch.no_grad()


@torch.compile(backend="eager", fullgraph=True)
def use(x, weight):
    with cast, quiet:
        y = x @ weight
    return y @ torch.ones(3, 1, dtype=torch.float64)


use(torch.ones(2, 2), torch.ones(2, 3, requires_grad=True))
