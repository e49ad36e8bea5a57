"""Contexts as values: autocast, no_grad, inference mode, a profiler's record_function"""
import torch

cast = torch.autocast("cpu", dtype=torch.bfloat16)
quiet = torch.no_grad()


@torch.compile(backend="eager")
def use(x, weight, cast):
    with cast, quiet, torch.profiler.record_function("mine"):
        y = x @ weight
    return y @ torch.ones(4, dtype=y.dtype)


use(torch.ones(2, 2), torch.ones(2, 3, requires_grad=True), cast)
