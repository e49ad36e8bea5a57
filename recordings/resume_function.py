"""The part after a graph break fails: Dynamo compiles it as a function of its own."""

import torch


@torch.compile(backend="aot_eager")
def step(x, weight, *, verbose=True):
    hidden = x.sin()
    if verbose:
        print("hidden", tuple(hidden.shape))
    return hidden @ weight


step(torch.randn(2, 3), torch.randn(4, 5))
