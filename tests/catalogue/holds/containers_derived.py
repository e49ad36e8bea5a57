"""Subclasses of OrderedDict, dict, list, UserDict and tuple, with attributes of their own"""

import collections

import torch


class Ordered(collections.OrderedDict):
    """With a method."""

    def first(self):
        return next(iter(self.values()))


class Attributes(dict):
    """Keys are attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    __setattr__ = dict.__setitem__


class Noted(list):
    """With an attribute."""

    note = "class"


class Missing(dict):
    """Makes what is absent."""

    def __missing__(self, key):
        return len(key)


class User(collections.UserDict):
    """Lower case."""

    def __getitem__(self, key):
        return super().__getitem__(key.lower())


class Size(tuple):
    """With a property."""

    @property
    def area(self):
        return self[0] * self[1]


ORDERED, ATTRIBUTES, NOTED = Ordered(b=3, a=4), Attributes(inner=Attributes(n=5)), Noted([6, 7])
NOTED.note = "own"
USER, MISSING, SIZE = User(rows=2), Missing(), Size((2, 4))


@torch._dynamo.assume_constant_result
def sizes():
    return (
        *(ORDERED.first(), ATTRIBUTES.inner.n, NOTED[1], len(NOTED.note), USER["ROWS"], MISSING["four"]),
        SIZE.area,
    )


@torch.compile(backend="eager")
def call(x):
    return x.reshape(sizes())


call(torch.ones(3))
