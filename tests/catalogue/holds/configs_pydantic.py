"""pydantic models: nested, with validators, computed fields, private attributes, generics"""
# needs: pydantic

import enum
from typing import Generic, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, computed_field, field_validator

T = TypeVar("T")


class Kind(str, enum.Enum):
    """A choice."""

    WIDE = "wide"


class Layer(BaseModel):
    """Nested."""

    model_config = ConfigDict(frozen=True)
    n: int = Field(gt=0)
    kind: Kind = Kind.WIDE


class Config(BaseModel):
    """With what models have."""

    width: int = 4
    layers: list[Layer] = Field(default_factory=list)
    _cache: dict = PrivateAttr(default_factory=dict)

    @field_validator("width")
    @classmethod
    def _even(cls, value):
        return value + value % 2

    @computed_field
    @property
    def total(self) -> int:
        return sum(layer.n for layer in self.layers)


class Box(BaseModel, Generic[T]):
    """Generic."""

    item: T


CONFIG = Config(width="5", layers=[{"n": 3}, Layer(n=4)])
CONFIG._cache["k"] = 8
BOX = Box[Layer](item={"n": 9})


@torch._dynamo.assume_constant_result
def sizes():
    again = Config.model_validate({"width": 7, "layers": CONFIG.model_dump()["layers"]})
    return CONFIG.width, CONFIG.total, CONFIG._cache["k"], BOX.item.n, again.width, again.total


@torch.compile(backend="eager")
def call(x):
    return x.reshape(sizes())


call(torch.ones(5))
