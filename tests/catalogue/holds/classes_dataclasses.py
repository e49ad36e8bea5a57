"""Dataclasses: kw_only, slots, frozen, InitVar, default_factory, inheritance, ordering"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch


@dataclasses.dataclass(frozen=True)
class Point:
    """Frozen, a key of a dictionary."""

    x: int
    y: int = 2


@dataclasses.dataclass
class Options:
    """An InitVar and a factory."""

    name: str
    sizes: list = dataclasses.field(default_factory=list)
    scale: dataclasses.InitVar[int] = 2
    count: ClassVar[int] = 7

    def __post_init__(self, scale):
        self.sizes.append(scale)


@dataclasses.dataclass(order=True)
class More(Options):
    """Derived."""

    depth: int = 1


if hasattr(dataclasses, "KW_ONLY"):

    @dataclasses.dataclass(slots=True, kw_only=True, frozen=True)
    class Compact:
        """Slots and keywords only."""

        rows: int
        columns: int = 4
        table: dict = dataclasses.field(default_factory=dict, repr=False)


COMPACT = Compact(rows=3, table={Point(1): 5, Point(2, 3): 6})
MORE = More("m", [1], 4, depth=3)


@torch._dynamo.assume_constant_result
def sizes():
    replaced = dataclasses.replace(COMPACT, columns=8)
    assert More("a", [], 2) < MORE and Options("z").sizes == [2]
    return (COMPACT.table[Point(2, 3)], replaced.columns, sum(MORE.sizes), MORE.depth, Options.count)


@torch.compile(backend="eager")
def call(x, point):
    return x.reshape(*sizes(), point.x, point.y)


call(torch.ones(5), Point(9))
