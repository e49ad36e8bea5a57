"""attrs classes: slots and not, frozen, with validators, converters and factories"""
# needs: attr

import attr
import torch
from attrs import Factory, define, field, frozen


@define
class Slotted:
    """With slots."""

    n: int = field(converter=int)
    sizes: list = Factory(list)

    @n.validator
    def _check(self, attribute, value):
        if value < 0:
            raise ValueError(value)

    def rows(self):
        return self.n + len(self.sizes)


@frozen
class Frozen:
    """Frozen, a key."""

    a: int
    b: int = field(default=2, kw_only=True)


@attr.s(auto_attribs=True, cmp=False)
class Old:
    """As they were written once."""

    width: int = 3
    inner: Slotted = attr.ib(factory=lambda: Slotted("4"))

    def __attrs_post_init__(self):
        self.twice = self.width * 2


@define
class Derived(Slotted):
    """Derived, with super."""

    extra: int = 1

    def rows(self):
        return super().rows() + self.extra


DERIVED, TABLE, OLD = Derived("5", [1]), {Frozen(1): 6, Frozen(1, b=3): 7}, Old()


@torch._dynamo.assume_constant_result
def sizes():
    changed = attr.evolve(DERIVED, extra=9)
    assert Frozen(1) != Frozen(2) and Slotted(1) == Slotted("1")
    return DERIVED.rows(), changed.rows(), TABLE[Frozen(1, b=3)], OLD.twice, len(attr.fields(Derived))


@torch.compile(backend="eager")
def call(x, old):
    return x.reshape(*sizes(), old.inner.n)


call(torch.ones(5), OLD)
