"""Training steps and evaluations in turn, under `no_grad` and `inference_mode`: one compilation for each mode."""
# record: {"on": "recompile", "calls": true}

import torch


@torch.compile(backend="eager")
def step(x, weight):
    return (x * weight).relu().sum()


x, weight = torch.ones(4), torch.full((4,), 0.5, requires_grad=True)
for _ in range(2):
    step(x, weight).backward()
    step(x, weight).backward()
    with torch.no_grad():
        step(x, weight)
    with torch.inference_mode():
        step(x, weight)
