"""An object whose pickling makes ever new objects"""
# warns: has no end

import torch


class Endless:
    """Another one in each."""

    def __init__(self, n=0):
        self.n = n

    def __getstate__(self):
        return {"n": self.n, "next": Endless(self.n + 1)}


THING = Endless(6)


@torch.compile(backend="eager")
def call(x):
    return x.reshape(THING.n, 2)


call(torch.ones(7))
