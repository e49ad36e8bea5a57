"""Slots, properties, descriptors with __set_name__, __getattr__ proxies, __getattribute__"""

import torch


class Positive:
    """A descriptor."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name)

    def __set__(self, instance, value):
        if value <= 0:
            raise ValueError(f"{value} is not positive")
        setattr(instance, self.name, value)


class Slotted:
    """Slots."""

    __slots__ = ("_hidden", "_rows", "unset")
    rows = Positive()

    def __init__(self, rows):
        self.rows = rows
        self._hidden = {"me": self}

    @property
    def columns(self):
        return self.rows * 2

    @columns.setter
    def columns(self, value):
        self.rows = value // 2


class Proxy:
    """Forwards to what it wraps."""

    def __init__(self, target):
        object.__setattr__(self, "_target", target)

    def __getattr__(self, name):
        return getattr(self._target, name)

    def __setattr__(self, name, value):
        setattr(self._target, name, value)


class Strict:
    """Sees every access."""

    def __init__(self):
        self.n = 3

    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        return value + 1 if name == "n" else value


THING, STRICT = Proxy(Slotted(3)), Strict()
THING.columns = 10


@torch._dynamo.assume_constant_result
def size():
    return THING.rows, THING.columns, STRICT.n, THING._hidden["me"].rows, hasattr(THING, "unset")


@torch.compile(backend="eager")
def call(x):
    rows, columns, n, again, unset = size()
    return x.reshape(rows, columns + again, n, 2 if unset else 3)


call(torch.ones(11))
