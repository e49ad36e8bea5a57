"""Generic classes, protocols, type variables, abstract base classes, TypedDict"""

import abc
import typing

import torch

T = typing.TypeVar("T", bound="Shape")


class Shape(abc.ABC):
    """Abstract."""

    @abc.abstractmethod
    def rows(self) -> int:
        """How many."""

    def twice(self):
        return self.rows() * 2


@typing.runtime_checkable
class HasRows(typing.Protocol):
    """A protocol."""

    def rows(self) -> int:
        """How many."""
        ...


class Square(Shape):
    """Concrete."""

    def __init__(self, n):
        self.n = n

    def rows(self) -> int:
        return self.n


class Box(typing.Generic[T]):
    """Holds one."""

    def __init__(self, item: T):
        self.item = item

    def get(self) -> T:
        return self.item


class SquareBox(Box[Square]):
    """Bound."""


class Settings(typing.TypedDict):
    """A dictionary."""

    columns: int


SETTINGS: Settings = Settings(columns=6)


@torch._dynamo.assume_constant_result
def size():
    box = BOX
    assert isinstance(box.get(), HasRows) and isinstance(box.get(), Shape)
    assert not isinstance(box, HasRows) and SquareBox.__orig_bases__[0].__args__ == (Square,)
    return box.get().twice()


BOX = SquareBox(Square(4))


@torch.compile(backend="eager")
def call(x):
    return x.reshape(size(), SETTINGS["columns"])


call(torch.ones(5))
