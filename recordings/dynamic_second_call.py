"""Only the second call fails: sizes that changed are dynamic then, and a backend of the user's refuses them."""

import torch


def static_only(gm, example_inputs):
    for value in example_inputs:
        if isinstance(value, torch.SymInt):
            raise NotImplementedError("this accelerator takes no dynamic shapes")
    return gm.forward


@torch.compile(backend=static_only)
def pool(x):
    return x.view(-1, 2).mean(0)


pool(torch.randn(4))
pool(torch.randn(6))
