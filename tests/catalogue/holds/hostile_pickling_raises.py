"""Objects whose pickling raises, SystemExit too, or recurses for ever"""

import torch


class Refuses:
    """As connections do."""

    def __init__(self, n):
        self.n = n

    def __getstate__(self):
        raise TypeError("cannot pickle a connection")


class Exits:
    """Ends the program of whoever pickles it."""

    __slots__ = ("n",)

    def __init__(self, n):
        self.n = n

    def __reduce_ex__(self, protocol):
        raise SystemExit(3)


class Recurses:
    """Never returns."""

    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        return self.__reduce__()


THINGS = [Refuses(3), Exits(4), Recurses(5)]


@torch.compile(backend="eager")
def call(x):
    return x.reshape([thing.n for thing in THINGS])


call(torch.ones(7))
