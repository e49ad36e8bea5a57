"""What one dump carries from object to object: the policy, the sinks, and what was noted on the way.

The reducers (one room per family of kinds) get a `Dumping` and an object, and return what `pickle` calls a reduce
tuple, or NotImplemented where pickle's own way is right. Nothing here knows any kind.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any, Protocol

from replay.shipping.names import Names, names_of
from replay.shipping.policy import Policy

Reduced = tuple[Any, ...]
Builder = Callable[..., Any]
DEEPEST = 40  # functions and classes inside one another; what lies deeper is written after the root


class TensorSink(Protocol):
    """Takes the tensors out of the object graph."""

    def add(self, tensor: Any) -> str | None:
        """The key under which the source will return this tensor; None if it is of a kind that is not the sink's."""

    def pin(self, tensor: Any) -> None:
        """Keep the values of a tensor that was added: they are part of another tensor's structure."""

    def add_storage(self, storage: Any) -> str:
        """The same for an untyped storage that a tensor subclass or a sparse tensor refers to."""


@dataclass(frozen=True, slots=True, eq=False)
class Namespace:
    """Stands in the stream for the `__dict__` of a module or for a dictionary that functions have as globals."""

    values: dict[str, Any]
    module: ModuleType | None  # None: no module has these globals


class Leaf:
    """Marks in the stream the end of a function's or a class's state."""


@dataclass(frozen=True, slots=True)
class Lost:
    """An object that could not travel, by the number that its placeholder carries."""

    value: object
    type: str
    reason: str

    @property
    def left_out(self) -> bool:
        """Whether it was not to travel."""
        return self.reason == LEFT_OUT


Leave = Callable[[object], Set[str]]
"""Names of the attributes of an object that are left out; for a module also submodules, parameters, buffers."""
LEFT_OUT = "left out: the frame's code does not name it"


def leave_nothing(value: object) -> Set[str]:
    """The usual `Leave`."""
    return frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """Stands in the stream for what an object holds and is left out."""

    value: object


@dataclass(slots=True)
class Dumping:
    """The state of one dump."""

    policy: Policy
    tensors: TensorSink
    names: Mapping[int, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    display: dict[str, str] = field(default_factory=dict)  # texts in which no code was found
    lost: list[Lost] = field(default_factory=list)
    shipped: dict[str, None] = field(default_factory=dict)  # names of modules, in order
    pending: deque[tuple[Builder, Any, Any]] = field(default_factory=deque)
    used: set[str] = field(default_factory=set)  # every name that shipped code mentions
    loose: dict[str, ModuleType] = field(default_factory=dict)  # modules reached as data
    foreseen: set[str] = field(default_factory=set)  # modules whose used attributes a function has sent
    classes: dict[int, type] = field(default_factory=dict)  # by id; those that travel by value
    owners: dict[int, dict[str, Any]] = field(default_factory=dict)  # code object -> its function's globals
    leave: Leave = leave_nothing
    shallow: bool = False  # the C stack was too small: objects' states wait as well, if they lie deep
    depth: int = 0
    unwilling: dict[type, str] = field(
        default_factory=dict
    )  # whose own pickling is not asked any more, and why
    asked: Counter[type] = field(default_factory=Counter)  # objects whose own pickling was asked
    foreign: dict[type, bool] = field(
        default_factory=dict
    )  # whether that runs code of the user's or a library's
    _namespaces: dict[int, Namespace] = field(default_factory=dict)
    _names: dict[int, Names] = field(default_factory=dict)
    _keep: list[CodeType] = field(default_factory=list)

    def namespace(self, values: dict[str, Any], owner: ModuleType | None = None) -> Namespace:
        """The one stand-in for this dictionary; `owner` is the module that it is known to belong to."""
        found = self._namespaces.get(id(values))
        if found is None:
            name = values.get("__name__")
            module = sys.modules.get(name) if isinstance(name, str) else None
            owned = isinstance(module, ModuleType) and module.__dict__ is values
            found = self._namespaces[id(values)] = Namespace(values, module if owned else owner)
        return found

    def names_of(self, code: CodeType) -> Names:
        """`names.names_of`, once per code object; what it finds counts as used."""
        found = self._names.get(id(code))
        if found is None:
            self._keep.append(code)
            found = self._names[id(code)] = names_of(code)
            self.used |= found.all
        return found

    def reduce_late(
        self, make: Builder, arguments: Reduced, fill: Builder, value: object, state: Reduced
    ) -> Reduced:
        """Reduce to a skeleton with a state; deep inside, the state waits until the root has been written.

        That keeps the C stack shallow: functions that use functions form chains hundreds of links long.
        """
        if self.depth >= DEEPEST:
            self.pending.append((fill, value, state))
            return make, arguments
        self.depth += 1
        return make, arguments, (*state, Leaf()), None, None, fill

    def lose(self, value: object, reason: str) -> int:
        """Note that `value` cannot travel; the number is what its placeholder carries."""
        self.lost.append(Lost(value, type_name(value), reason))
        return len(self.lost) - 1


def type_name(value: object) -> str:
    """The qualified name of a value's type."""
    return named(type(value))


def named(cls: type) -> str:
    """The qualified name of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"
