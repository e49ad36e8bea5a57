"""functools: partial, partialmethod, lru_cache, singledispatch, cached_property"""

import functools

import torch


@functools.lru_cache(maxsize=4)
def rows(n):
    return n * 2 + 1


@functools.singledispatch
def size_of(value):
    return 0


@size_of.register
def _(value: str):
    return len(value)


@size_of.register
def _(value: list):
    return sum(value)


class Shape:
    """Partial methods and a cached property."""

    def __init__(self, n):
        self.n = n

    @functools.cached_property
    def doubled(self):
        return self.n * 2

    def plus(self, a, b):
        return self.n + a + b

    plus_ten = functools.partialmethod(plus, 10)


def view(columns, x, *, count):
    return x.reshape(count, columns)


SHAPE = Shape(4)
VIEW = functools.partial(view, 3, count=2)


@torch._dynamo.assume_constant_result
def number():
    return size_of("abc") + size_of([1, 2]) + SHAPE.doubled + SHAPE.plus_ten(1) + rows.__wrapped__(2)


@torch.compile(backend="eager")
def call(x):
    return VIEW(x[: number()])


call(torch.ones(100))
