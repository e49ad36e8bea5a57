"""Tensors and a module on the device meta"""

import torch

with torch.device("meta"):
    model = torch.nn.Linear(3, 5)
    x = torch.empty(2, 3, dtype=torch.float32)


@torch.compile(backend="eager")
def use(model, x):
    y = model(x)
    assert y.device.type == "meta"
    return y @ torch.ones(4, device="meta")


use(model, x)
