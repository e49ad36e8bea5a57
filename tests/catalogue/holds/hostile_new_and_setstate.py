"""Objects whose __new__ or __setstate__ raises when they are made again"""
# names: Explodes.__setstate__

import torch


class Needs:
    """Cannot be made without an argument."""

    def __new__(cls, n):
        made = super().__new__(cls)
        made.n = n
        return made


class Explodes:
    """Takes no state."""

    def __init__(self, n):
        self.n = n

    def __setstate__(self, state):
        raise RuntimeError("boom")


NEEDS, EXPLODES = Needs(6), Explodes(3)


@torch.compile(backend="eager")
def call(x, other):
    return x.reshape(NEEDS.n, 2)


call(torch.ones(7), EXPLODES)
