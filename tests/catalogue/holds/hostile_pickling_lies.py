"""Objects whose pickling lies: another class, a wrong tuple, a name that is not theirs"""

import torch


class AnotherClass:
    """Says that it is something else."""

    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        return object.__new__, (Wrong,)


class Wrong:
    """The something else."""

    n = 99


class NoTuple:
    """Says nothing of use."""

    def __init__(self, n):
        self.n = n

    def __reduce_ex__(self, protocol):
        return 1, 2, 3


class Name:
    """Says that it is a global."""

    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        return "torch"


class Liar:
    """Its `__class__` is not its type."""

    def __init__(self, n):
        self.n = n

    @property
    def __class__(self):
        return dict


THINGS = [AnotherClass(2), NoTuple(3), Name(4), Liar(5)]


@torch._dynamo.assume_constant_result
def sizes():
    assert isinstance(THINGS[3], dict) and type(THINGS[0]) is AnotherClass
    return [thing.n for thing in THINGS]


@torch.compile(backend="eager")
def call(x):
    return x.reshape(sizes())


call(torch.ones(7))
