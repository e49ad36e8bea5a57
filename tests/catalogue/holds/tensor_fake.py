"""Fake tensors of the user's own mode, one of them on a device that is not there"""

import torch
from torch._subclasses import FakeTensorMode

mode = FakeTensorMode()
with mode:
    x = torch.empty(2, 3, requires_grad=True)
    weight = torch.empty(3, 4, device="cuda")
like = mode.from_tensor(torch.ones(5, 6))


@torch._dynamo.disable
def describe(*given):
    assert len({id(one.fake_mode) for one in given}) == 1
    raise ValueError(
        str([(type(one).__name__, one.device, tuple(one.shape), one.requires_grad) for one in given])
    )


@torch.compile(backend="eager")
def use(y, x, weight, like):
    y = y + 1
    return describe(x, weight, like)


use(torch.ones(2), x, weight, like)
