"""Objects made again without their class: attributes, slots, and what they are as a built-in type.

No `__new__`, `__init__` or `__setstate__` of the class runs here. Which objects travel so is decided in `others.py`.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from replay.shipping.loading import Loading, builder
from replay.shipping.placeholders import MissingType, Placeholder

SIMPLE = (int, float, complex, bool, str, bytes, type(None))
CONTENT: dict[type, Callable[[Any], Any]] = {
    int: int.__pos__,
    float: float.__pos__,
    complex: complex.__pos__,
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
}
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement


def is_all_python(cls: type) -> bool:
    """Whether `__dict__` and slots are all that an instance has: no built-in type is among the bases."""
    return all(
        base.__flags__ & HEAP_TYPE and not isinstance(base.__dict__.get("__new__"), types.BuiltinFunctionType)
        for base in cls.__mro__[:-1]
    )


def plain_state(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """An object's `__dict__` and its slots; no code of its class runs."""
    slots = {}
    for base in type(value).__mro__:
        for name, descriptor in base.__dict__.items():
            if type(descriptor) is types.MemberDescriptorType and name not in slots:
                try:
                    slots[name] = descriptor.__get__(value)
                except AttributeError:  # not set
                    continue
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:  # slots only
        attributes = {}
    return dict(attributes), slots


def simple_state(value: Any) -> dict[str, Any] | None:
    """The attributes that a hash may need before the others are there: it may be a key of what they hold."""
    if getattr(type(value), "__hash__", None) in (None, object.__hash__):
        return None
    attributes, slots = plain_state(value)
    return {name: item for name, item in {**attributes, **slots}.items() if _is_simple(item)}


def _is_simple(item: Any) -> bool:
    return type(item) in SIMPLE or (type(item) is tuple and all(map(_is_simple, item)))


@builder
def make_plain(loading: Loading, cls: Any, simple: dict[str, Any] | None = None) -> Any:
    """An object without its `__init__`, and where that is possible without its class's `__new__`."""
    if not isinstance(cls, type) or isinstance(cls, MissingType) or not is_all_python(cls):
        return cls.__new__(cls)
    made: Any = object.__new__(cls)
    for name, item in (simple or {}).items():
        object.__setattr__(made, name, item)
    return made


def content_of(value: Any) -> tuple[type, Any] | None:
    """The built-in immutable type that an object's class derives from, and what the object is as one of these."""
    for base, content in CONTENT.items():
        if issubclass(type(value), base):
            return base, content(value)
    return None


@builder
def make_derived(loading: Loading, cls: Any, base: type, content: Any) -> Any:
    """An object of a class that derives from a built-in one, without the class's own `__new__`."""
    make: Any = base.__new__ if isinstance(cls, type) and issubclass(cls, base) else cls.__new__
    return make(cls, content)


@builder
def fill_plain(
    loading: Loading, value: Any, state: tuple[dict[str, Any] | None, dict[str, Any] | None]
) -> None:
    """Set an object's `__dict__` and slots, whatever its class has to say."""
    attributes, slots = state
    if isinstance(value, Placeholder):
        return
    if attributes:
        object.__getattribute__(value, "__dict__").update(attributes)
    for name, content in (slots or {}).items():
        object.__setattr__(value, name, content)
