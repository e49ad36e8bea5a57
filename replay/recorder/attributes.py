"""Plain values that a call saw and that may change before the next one: attributes, globals, closure variables.

A guard that fails says that one of them has changed. The objects are only known by weak references, so that what
a call saw would be gone by the time of the failure if it were not noted.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from replay.recorder import frames
from replay.torch_adapter import sketches

PLAIN = (int, float, complex, bool, str, bytes, type(None))
OBJECTS = 256
"""Objects that are looked at for one call."""
WIDTH = 64
"""Items of a list, tuple, set or dictionary of plain values, up to which it counts as plain itself."""
_OTHERS = (type, ModuleType, FunctionType)
_CONTAINERS = (*PLAIN, dict, OrderedDict, list, tuple, set, frozenset)
"""What is not looked into on the way to other objects: a module has ten dictionaries of hooks."""
_NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class Owner:
    """An object as one call saw it."""

    reference: Callable[[], Any]
    plain: Mapping[str, Any]  # its plain attributes
    names: frozenset[str]  # all that it had itself


@dataclass(frozen=True, slots=True)
class Seen:
    """What one call saw."""

    attributes: tuple[Owner, ...] = ()
    globals: Mapping[str, Any] | None = None
    closure: Mapping[str, Any] | None = None


def seen(
    code: CodeType, f_globals: Mapping[str, Any], closure: tuple[Any, ...], values: Iterable[Any]
) -> Seen:
    """Note them. `values`: arguments and contents of the cells; no code of the user's runs."""
    used = {name: f_globals[name] for name in frames.names_used(code) if name in f_globals}
    return Seen(
        attributes=tuple(_owners([*values, *used.values()])),
        globals=_plain(used),
        closure=_plain(frames.cells(code, closure)),
    )


def changed(
    before: Seen, code: CodeType, f_globals: Mapping[str, Any], closure: tuple[Any, ...]
) -> dict[str, Any]:
    """What was otherwise then, as a bundle keeps it: objects with their attributes, globals, closure variables.

    Of an object also the names of plain attributes that it did not have.
    """
    objects = []
    for one in before.attributes:
        owner = one.reference()
        held = (_dictionary(owner) if owner is not None else None) or {}
        other = {name: value for name, value in one.plain.items() if _differs(held, name, value)}
        new = [
            name for name, value in held.items() if name not in one.names and _copied(value) is not _NOTHING
        ]
        if owner is not None and (other or new):
            objects.append((owner, other, new))
    now = frames.cells(code, closure)
    return {
        "attributes": objects,
        "globals": {k: v for k, v in (before.globals or {}).items() if _differs(f_globals, k, v)},
        "closure": {k: v for k, v in (before.closure or {}).items() if _differs(now, k, v)},
    }


def _differs(now: Mapping[str, Any], name: str, value: Any) -> bool:
    current = _copied(now.get(name, _NOTHING))
    return type(current) is not type(value) or (current is not value and current != value)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The plain ones, copied."""
    copies = {name: _copied(value) for name, value in values.items() if type(name) is str}
    return {name: value for name, value in copies.items() if value is not _NOTHING}


def _copied(value: Any) -> Any:
    """A plain value, or a copy of a small container of such; else nothing."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind in (list, tuple, set, frozenset) and len(value) <= WIDTH:
        return kind(value) if all(type(item) in PLAIN for item in value) else _NOTHING
    if kind is dict and len(value) <= WIDTH:
        plain = all(type(key) in PLAIN and type(item) in PLAIN for key, item in value.items())
        return dict(value) if plain else _NOTHING
    return _NOTHING


def _owners(values: Iterable[Any]) -> Iterable[Owner]:
    """Objects, breadth first, with their plain attributes."""
    waiting, known = deque(values), set[int]()
    while waiting and len(known) < OBJECTS:
        value = waiting.popleft()
        held = _dictionary(value)
        if held is None or id(value) in known:
            continue
        known.add(id(value))
        try:
            yield Owner(weakref.ref(value), _plain(held), frozenset(held))
        except TypeError:  # takes no weak reference
            continue
        waiting.extend(one for one in held.values() if type(one) not in _CONTAINERS)
        if sketches.is_module(value):
            waiting.extend(held.get("_modules", {}).values())


def _dictionary(value: Any) -> dict[str, Any] | None:
    if type(value) in PLAIN or issubclass(type(value), _OTHERS) or sketches.is_tensor(value):
        return None
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return held if type(held) is dict else None
