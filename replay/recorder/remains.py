"""What is kept of a value after its call: itself if plain, metadata of a tensor, weak references to the rest.

No tensor of the user's is kept alive, and no object that is not a plain value or a function over plain values. What is
gone when it is asked for becomes `Gone`, but for plain objects: these are made again, with what they held.
No code of the user's runs here.
"""

from __future__ import annotations

import enum
import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType
from typing import Any

from replay.torch_adapter import sketches

DEPTH = 4
WIDTH = 64
"""Containers are looked into so deep, and so wide."""

PLAIN = (int, float, complex, bool, str, bytes, type(None), type(...))


@dataclass(frozen=True, slots=True)
class Gone:
    """An object of an earlier call that was not kept."""

    type: str


@dataclass(frozen=True, slots=True)
class Instance:
    """An object that is nothing but its class and its attributes, and may be gone by the time that it is wanted."""

    reference: Callable[[], Any]
    kind: Callable[[], Any]  # a weak reference to its class
    attributes: Mapping[str, Any]  # sketched


@dataclass(frozen=True, slots=True)
class Made:
    """Something that is made of its parts again: a function, a bound method, a partial, a named tuple."""

    reference: Callable[[], Any]
    make: Callable[..., Any]
    parts: tuple[Any, ...]  # sketched; what `make` takes
    shown: str  # for people


def sketch(value: Any, depth: int = DEPTH) -> Any:
    """What is kept of a value."""
    kind = type(value)
    if kind in PLAIN or sketches.is_constant(value):
        return value
    if sketches.is_tensor(value):
        return sketches.Tensor.of(value) or Gone(kind.__qualname__)
    if depth and kind in (tuple, list) and len(value) <= WIDTH:
        return kind(sketch(item, depth - 1) for item in value)
    if kind in (set, frozenset) and len(value) <= WIDTH and _all_plain(value):
        return kind(value)
    if depth and kind is dict and len(value) <= WIDTH and _all_plain(value):
        return {key: sketch(item, depth - 1) for key, item in value.items()}
    if kind is FunctionType and not value.__closure__ and _is_bare(value):
        return value
    if depth and (kind in _TAKEN_APART or (issubclass(kind, tuple) and _is_named(kind))):
        return _taken_apart(value, depth - 1)
    try:
        reference = weakref.ref(value)
    except TypeError:
        return Gone(kind.__qualname__)
    held = _only_attributes(value) if depth and not sketches.is_module(value) else None
    if held is None:
        return reference
    return Instance(
        reference, weakref.ref(kind), {name: sketch(one, depth - 1) for name, one in held.items()}
    )


def revive(value: Any, tensor: Callable[[sketches.Tensor], Any]) -> Any:
    """The inverse of `sketch`, as far as it goes; `tensor` makes the stand-in of a tensor."""
    kind = type(value)
    if kind is weakref.ref:
        target = value()
        return Gone("object") if target is None else target
    if kind is sketches.Tensor:
        return tensor(value)
    if kind in (tuple, list):
        return kind(revive(item, tensor) for item in value)
    if kind is dict:
        return {key: revive(item, tensor) for key, item in value.items()}
    if kind is Made:
        alive = value.reference()
        if alive is not None and is_same(value, alive):
            return alive
        return value.make(*(revive(one, tensor) for one in value.parts))
    if kind is Instance:
        return _instance(value, tensor)
    return value


def is_whole(kept: Any) -> bool:
    """Whether `revive` would give all that was sketched: nothing in it is gone."""
    kind = type(kept)
    if kind is weakref.ref:
        return kept() is not None
    if kind is Gone:
        return False
    if kind is sketches.Tensor:
        return not kept.special or kept.alive() is not None
    if kind in (tuple, list):
        return all(map(is_whole, kept))
    if kind is dict:
        return all(map(is_whole, kept.values()))
    if kind is Made:
        return kept.reference() is not None or all(map(is_whole, kept.parts))
    if kind is Instance:
        there = kept.kind() is not None and all(map(is_whole, kept.attributes.values()))
        return kept.reference() is not None or there
    return True


def is_same(kept: Any, now: Any) -> bool:
    """Whether a value is still what a sketch was made of: the same tensor or object, or equal plain ones."""
    kind = type(kept)
    if kind is weakref.ref:
        return kept() is now
    if kind is sketches.Tensor:
        return kept.alive() is now and sketches.is_unchanged(kept, now)
    if kind is Instance:
        return kept.reference() is now
    if kind is Made:
        unchanged = type(now) is not FunctionType or is_same(kept.parts, _held(now))
        return kept.reference() is now and unchanged
    if type(now) is not kind:
        return False
    if kind in (tuple, list):
        return len(kept) == len(now) and all(map(is_same, kept, now))
    if kind is dict:
        return list(kept) == list(now) and all(is_same(one, now[key]) for key, one in kept.items())
    if kind in PLAIN or kind in (set, frozenset):
        return bool(kept is now or kept == now)
    return kept is now


def is_importable(kind: type) -> bool:
    """Whether a class is found by its name, so that it lives as long as its module."""
    module = sys.modules.get(kind.__module__)
    return getattr(module, "__dict__", {}).get(kind.__qualname__) is kind


def _instance(value: Instance, tensor: Callable[[sketches.Tensor], Any]) -> Any:
    """The object, or one like it."""
    alive, kind = value.reference(), value.kind()
    if alive is not None:
        return alive
    if kind is None:
        return Gone("object")
    try:
        made = object.__new__(kind)
    except TypeError:  # an abstract class
        return Gone(kind.__qualname__)
    held: dict[str, Any] = object.__getattribute__(made, "__dict__")
    held.update({name: revive(one, tensor) for name, one in value.attributes.items()})
    return made


def _only_attributes(value: Any) -> dict[str, Any] | None:
    """The attributes of an object that holds nothing else, if they are few; None for any other."""
    kind = type(value)
    plain = kind.__basicsize__ == _Bare.__basicsize__ and issubclass(type(kind), type)
    if not plain or issubclass(kind, type) or kind.__module__ in ("builtins", "types", "weakref"):
        return None
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return held if type(held) is dict and len(held) <= WIDTH else None


class _Bare:
    """An object with attributes and nothing else."""


def _taken_apart(value: Any, depth: int) -> Made:
    """A function, method, partial or named tuple, with its parts sketched."""
    kind = type(value)
    reference: Callable[[], Any] = _nothing
    if kind is FunctionType:
        make = functools.partial(_function, value.__code__, value.__globals__, value.__qualname__)
        return Made(
            weakref.ref(value),
            make,
            tuple(sketch(one, max(depth, 1)) for one in _held(value)),
            f"function {value.__qualname__}",
        )
    if kind is MethodType:
        return Made(
            reference, MethodType, (sketch(value.__func__, depth), sketch(value.__self__, depth)), "method"
        )
    if kind is functools.partial:
        parts = (sketch(value.func, depth), sketch(value.args, depth), sketch(value.keywords, depth))
        return Made(weakref.ref(value), _partial, parts, "functools.partial")
    items = tuple(sketch(item, depth) for item in tuple.__iter__(value))
    return Made(reference, functools.partial(_named, kind), items, kind.__qualname__)


_TAKEN_APART = (FunctionType, MethodType, functools.partial)


def _held(function: FunctionType) -> tuple[Any, ...]:
    """What a function holds beside its code: defaults, and the contents of its cells, which others may change."""
    cells = tuple(map(_content, function.__closure__ or ()))
    return function.__defaults__, function.__kwdefaults__, cells


def _is_bare(function: FunctionType) -> bool:
    """Whether a function holds plain values only, so that keeping it keeps nothing else alive."""
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return _all_plain([*held, *function.__dict__.values()])


def _function(code: Any, f_globals: Any, name: str, *held: Any) -> FunctionType:
    defaults, keywords, contents = held
    cells = tuple(CellType() if type(one) is _Empty else CellType(one) for one in contents)
    made = FunctionType(code, f_globals, name.rpartition(".")[2], defaults, cells or None)
    made.__kwdefaults__, made.__qualname__ = keywords, name
    return made


def _partial(function: Any, arguments: Any, keywords: Any) -> Any:
    return functools.partial(function, *arguments, **keywords)


def _named(kind: type, *items: Any) -> Any:
    return tuple.__new__(kind, items)


def _nothing() -> None:
    """A reference to something that nobody holds."""


class _Empty(enum.Enum):
    """Stands for the content of a cell that is not assigned yet."""

    CELL = 0


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _Empty.CELL


def _is_named(kind: type) -> bool:
    """Whether a class is a named tuple's: `collections.namedtuple` and `typing.NamedTuple` make no other."""
    return kind.__bases__ == (tuple,) and "_fields" in kind.__dict__ and "_make" in kind.__dict__


def _all_plain(values: Iterable[Any]) -> bool:
    return all(type(value) in PLAIN for value in values)
