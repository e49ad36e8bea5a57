"""The frame itself raises, while Dynamo traces it"""

import torch


class Refused(ValueError):
    """The program's own exception."""


def check(x):
    if x.shape[0] % 2:
        raise Refused(f"an odd number of rows: {x.shape[0]}")


@torch.compile(backend="eager", fullgraph=True)
def halve(x):
    check(x)
    return x[: x.shape[0] // 2]


halve(torch.ones(9))
