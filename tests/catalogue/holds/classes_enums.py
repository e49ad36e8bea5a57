"""Enums: with methods and attributes, IntEnum, str enums, flags, aliases"""

import enum

import torch


class Planet(enum.Enum):
    """Members with attributes."""

    EARTH = (5, 6)
    MARS = (2, 3)

    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius

    def area(self):
        return self.radius**2 + self.mass


class Level(enum.IntEnum):
    """Numbers."""

    LOW = 1
    HIGH = 4
    TOP = 4


class Mode(str, enum.Enum):
    """Words."""

    SUM = "sum"
    CAT = "cat"


class Access(enum.Flag):
    """Bits."""

    R = 1
    W = 2


RIGHTS = Access.R | Access.W


@torch.compile(backend="eager")
def call(x, planet, mode):
    if mode is Mode.CAT:
        x = torch.cat([x, x])
    if planet is Planet.MARS:
        x = x[1:]
    return x.reshape(planet.area(), Level.TOP.value, RIGHTS.value)


call(torch.ones(4), Planet.MARS, Mode("cat"))
