"""A string that changes with every call: Dynamo recompiles until its limit, which `fullgraph` makes an error."""

import torch


@torch.compile(backend="aot_eager", fullgraph=True)
def tag(x, name):
    return x * 2 if name else x


for n in range(20):
    tag(torch.ones(4), f"step {n}")
