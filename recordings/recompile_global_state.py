"""Autocast, determinism and the default dtype change around a function that does not mention them."""
# record: {"on": "recompile"}

import torch


@torch.compile(backend="eager")
def project(x, weight):
    return x @ weight


x, weight = torch.ones(2, 3), torch.ones(3, 2)
project(x, weight)
with torch.autocast("cpu", dtype=torch.bfloat16):
    project(x, weight)
torch.use_deterministic_algorithms(True)
project(x, weight)
torch.use_deterministic_algorithms(False)
torch.set_default_dtype(torch.float64)
project(x, weight)
