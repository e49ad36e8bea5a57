"""Named tuples with defaults, typing.NamedTuple with methods, a subclass of one"""

import collections
import typing

import torch

Pair = collections.namedtuple("Pair", "a b", defaults=[2])


class Named(typing.NamedTuple):
    """With a method."""

    left: torch.Tensor
    right: int = 3

    def both(self):
        return self.left.repeat(self.right)


class Triple(Pair):
    """Derived."""

    def total(self):
        return self.a + self.b


@torch.compile(backend="eager")
def call(pair, named, triple):
    return named.both().reshape(pair.a, pair.b, triple.total())


call(Pair(5), Named(torch.ones(7)), Triple(1, 10))
