"""A compiled generator's helper, inlined, fails"""

import torch


def halves(x):
    yield x[: x.shape[0] // 2]
    yield x[x.shape[0] // 2 :]


@torch.compile(backend="eager")
def joined(x):
    first, second = halves(x)
    return first + second


joined(torch.ones(7))
