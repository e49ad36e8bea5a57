"""Values that a call saw and that may change before the next one: attributes, globals, closure variables.

A guard that fails says that one of them has changed. The objects are only known by weak references, so that what
a call saw would be gone by the time of the failure if it were not noted: plain values as they are, tensors by
metadata, small functions, classes and containers of such.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from replay.recorder import frames, remains
from replay.torch_adapter import sketches

PLAIN = remains.PLAIN
OBJECTS = 256
"""Objects that are looked at for one call."""
WIDTH = remains.WIDTH
"""Items of a list, tuple, set or dictionary, up to which it is noted."""
_OTHERS = (type, ModuleType, FunctionType)
_CONTAINERS = (*PLAIN, dict, OrderedDict, list, tuple, set, frozenset)
"""What is not looked into on the way to other objects: a module has ten dictionaries of hooks."""
_NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class Owner:
    """An object as one call saw it."""

    reference: Callable[[], Any]
    noted: Mapping[str, Any]  # its attributes that a guard may read, sketched
    names: frozenset[str]  # all that it had itself


@dataclass(frozen=True, slots=True)
class Seen:
    """What one call saw."""

    attributes: tuple[Owner, ...] = ()
    globals: Mapping[str, Any] | None = None
    closure: Mapping[str, Any] | None = None


def seen(
    code: CodeType,
    f_globals: Mapping[str, Any],
    closure: tuple[Any, ...],
    values: Iterable[Any],
    previous: Seen | None = None,
) -> Seen:
    """Note them. `values`: arguments and contents of the cells; no code of the user's runs.

    `previous`: what the call before saw. Of objects that are as they were then, nothing is noted anew.
    """
    used = {name: f_globals[name] for name in frames.names_used(code) if name in f_globals}
    known = {id(one.reference()): one for one in (previous.attributes if previous is not None else ())}
    return Seen(
        attributes=tuple(_owners([*values, *used.values()], known)),
        globals=_noted(used),
        closure=_noted(frames.cells(code, closure)),
    )


def changed(
    before: Seen,
    code: CodeType,
    f_globals: Mapping[str, Any],
    closure: tuple[Any, ...],
    *,
    tensor: Callable[[sketches.Tensor], Any],
    unchanged: set[int],
) -> dict[str, Any]:
    """What was otherwise then, as a bundle keeps it: objects with their attributes, globals, closure variables.

    Of an object also the names of attributes that it did not have. `tensor` makes the stand-in of a tensor.
    `unchanged`: `id`s of owners that are known to be as they were; more are added.
    """

    def other(noted: Mapping[str, Any] | None, now: Mapping[str, Any]) -> dict[str, Any]:
        then = {
            name: remains.revive(kept, tensor)
            for name, kept in (noted or {}).items()
            if not remains.is_same(kept, now.get(name, _NOTHING))
        }
        return {name: value for name, value in then.items() if type(value) is not remains.Gone}

    objects = []
    for one in before.attributes:
        if id(one) in unchanged:
            continue
        owner = one.reference()
        held = (_dictionary(owner) if owner is not None else None) or {}
        then = other(one.noted, held)
        new = [name for name, value in held.items() if name not in one.names and _is_noted(name, value)]
        if owner is not None and (then or new):
            objects.append((owner, then, new))
        else:
            unchanged.add(id(one))
    return {
        "attributes": objects,
        "globals": other(before.globals, f_globals),
        "closure": other(before.closure, frames.cells(code, closure)),
    }


def _noted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those that a guard may read, sketched."""
    return {name: _sketch(value) for name, value in values.items() if _is_noted(name, value)}


def _sketch(value: Any) -> Any:
    """Of an object that guards look into, and that may be large, only which one it was."""
    if _is_plain(value) or _is_changeable(value, 1):
        return remains.sketch(value, 2)
    return weakref.ref(value)


def _is_noted(name: Any, value: Any) -> bool:
    """Whether a value is noted. What has a name of torch's own making, as the parameters of a module, is not."""
    if type(name) is not str:
        return False
    if _is_plain(value):
        return True
    if name.startswith("_"):
        return False
    return _is_changeable(value, 1) or (type(value) not in _CONTAINERS and _is_referable(value))


def _is_referable(value: Any) -> bool:
    """Whether an object takes weak references, and is none of the many that no program exchanges."""
    kind = type(value)
    return kind.__weakrefoffset__ != 0 and kind is not ModuleType and not issubclass(kind, type)


def _is_plain(value: Any) -> bool:
    """Whether it is a plain value, or a small container of such."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return len(value) <= WIDTH and all(type(item) in PLAIN for item in value)
    if kind is dict:
        items = (*value, *value.values()) if len(value) <= WIDTH else (_NOTHING,)
        return all(type(item) in PLAIN for item in items)
    return kind in PLAIN


def _is_changeable(value: Any, depth: int) -> bool:
    """Whether it is something else that is likely to be exchanged between two calls, and can be kept."""
    kind = type(value)
    if kind is FunctionType:
        return True
    if issubclass(kind, type):
        return remains.is_importable(value)
    if depth and kind in (list, tuple):
        return len(value) <= WIDTH and all(_is_plain(one) or _is_changeable(one, 0) for one in value)
    return sketches.is_constant(value) or sketches.is_tensor(value)


def _owners(values: Iterable[Any], before: Mapping[int, Owner]) -> Iterable[Owner]:
    """Objects, breadth first, with their attributes; those from before that are unchanged."""
    waiting, known = deque(values), set[int]()
    while waiting and len(known) < OBJECTS:
        value = waiting.popleft()
        held = _dictionary(value)
        if held is None or id(value) in known:
            continue
        known.add(id(value))
        try:
            same = before.get(id(value))
            if same is None or not _is_as_before(same, value, held):
                same = Owner(weakref.ref(value), _noted(held), frozenset(held))
            yield same
        except TypeError:  # takes no weak reference
            continue
        waiting.extend(one for one in held.values() if type(one) not in _CONTAINERS)
        if sketches.is_module(value):
            waiting.extend(held.get("_modules", {}).values())


def _is_as_before(before: Owner, value: Any, held: Mapping[str, Any]) -> bool:
    if before.reference() is not value or held.keys() != before.names:
        return False
    noted = before.noted
    return all(
        remains.is_same(noted[name], one) if name in noted else not _is_noted(name, one)
        for name, one in held.items()
    )


def _dictionary(value: Any) -> dict[str, Any] | None:
    if type(value) in PLAIN or issubclass(type(value), _OTHERS) or sketches.is_tensor(value):
        return None
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return held if type(held) is dict else None
