"""Plain values that a call saw and that may change before the next one: attributes, globals, closure variables.

A guard that fails says that one of them has changed. The objects are only known by weak references, so that what
a call saw would be gone by the time of the failure if it were not noted.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from replay.recorder import frames
from replay.torch_adapter import sketches

PLAIN = (int, float, complex, bool, str, bytes, type(None))
OBJECTS = 256
"""Objects that are looked at for one call."""
_OTHERS = (type, ModuleType, FunctionType)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one call saw."""

    attributes: tuple[tuple[Callable[[], Any], Mapping[str, Any]], ...] = ()
    globals: Mapping[str, Any] | None = None
    closure: Mapping[str, Any] | None = None


def seen(
    code: CodeType, f_globals: Mapping[str, Any], closure: tuple[Any, ...], values: Iterable[Any]
) -> Seen:
    """Note them. `values`: arguments and contents of the cells; no code of the user's runs."""
    names = frames.names_used(code)
    return Seen(
        attributes=tuple(_attributes(values)),
        globals={name: f_globals[name] for name in names if type(f_globals.get(name, ...)) in PLAIN},
        closure=_cells(code, closure),
    )


def changed(
    before: Seen, code: CodeType, f_globals: Mapping[str, Any], closure: tuple[Any, ...]
) -> dict[str, Any]:
    """What was otherwise then, as a bundle keeps it: objects with their attributes, globals, closure variables."""
    objects = []
    for reference, attributes in before.attributes:
        owner = reference()
        held = {} if owner is None else _dictionary(owner) or {}
        other = {name: value for name, value in attributes.items() if _differs(held, name, value)}
        if owner is not None and other:
            objects.append((owner, other))
    now = _cells(code, closure)
    return {
        "attributes": objects,
        "globals": {k: v for k, v in (before.globals or {}).items() if _differs(f_globals, k, v)},
        "closure": {k: v for k, v in (before.closure or {}).items() if _differs(now, k, v)},
    }


def _differs(now: Mapping[str, Any], name: str, value: Any) -> bool:
    current = now.get(name, ...)
    return type(current) is not type(value) or (current is not value and current != value)


def _cells(code: CodeType, closure: tuple[Any, ...]) -> dict[str, Any]:
    found = {}
    for name, cell in zip(code.co_freevars, closure, strict=False):
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if type(content) in PLAIN:
            found[name] = content
    return found


def _attributes(values: Iterable[Any]) -> Iterable[tuple[Callable[[], Any], Mapping[str, Any]]]:
    """Objects, breadth first, with their plain attributes."""
    waiting, known = deque(values), set[int]()
    while waiting and len(known) < OBJECTS:
        value = waiting.popleft()
        held = _dictionary(value)
        if held is None or id(value) in known:
            continue
        known.add(id(value))
        plain = {name: one for name, one in held.items() if type(one) in PLAIN and type(name) is str}
        try:
            if plain:
                yield weakref.ref(value), plain
        except TypeError:  # takes no weak reference
            continue
        waiting.extend(one for one in held.values() if type(one) not in PLAIN)
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
