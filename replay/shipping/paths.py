"""How a person would call an object inside an object graph: "arguments.self.log", "globals.LOG".

Only looked for when something is missing: a breadth-first walk, so that the shortest name wins. Objects are
looked at, never called: `type`, not `isinstance`, which asks the object for its class.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

LIMIT = 200_000  # objects to look at before giving up
PLAIN = (int, float, bytes, bool, type(None))  # keys that are shown; another key's repr is code of the user's


def find(root: object, wanted: list[object], names: Mapping[int, str]) -> list[str]:
    """A name for each wanted object; "an object of type T" for one that the walk does not meet."""
    missing = {id(value) for value in wanted}
    found: dict[int, str] = {}
    seen = {id(root)}
    todo: deque[tuple[str, Any]] = deque([("", root)]) if missing else deque()
    while todo and len(seen) < LIMIT and len(found) < len(missing):
        path, value = todo.popleft()
        if id(value) in missing and id(value) not in found:
            found[id(value)] = path
        for step, child in _children(path, value):
            if id(child) not in seen:
                seen.add(id(child))
                todo.append((names.get(id(child), step), child))
    return [found.get(id(value)) or f"an object of {type(value).__qualname__}" for value in wanted]


def _children(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    if issubclass(kind, (str, bytes, int, float, type(None))):
        return
    if kind is types.FunctionType:
        yield from _of_function(path, value)
    elif kind is types.MethodType:
        yield from ((path, value.__func__), (f"{path}.__self__", value.__self__))
    elif kind is types.CellType:
        yield from _contents(path, value)
    elif issubclass(kind, dict):
        for key, child in list(dict.items(value)):
            yield (_join(path, key) if issubclass(type(key), str) else f"{path}[{_shown(key)}]"), child
    elif issubclass(kind, (list, tuple, set, frozenset)):
        for number, child in enumerate(list(value)):
            yield f"{path}[{number}]", child
    elif not issubclass(kind, types.ModuleType):
        yield from _of_object(path, value)


def _of_function(path: str, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    used = set(function.__code__.co_names)
    todo = list(function.__code__.co_consts)
    while todo:
        constant = todo.pop()
        if isinstance(constant, types.CodeType):
            used.update(constant.co_names)
            todo.extend(constant.co_consts)
    for name in sorted(used & function.__globals__.keys()):
        value = function.__globals__[name]
        yield f"globals.{name}", value
        if isinstance(value, types.ModuleType):
            for attribute in sorted(used & value.__dict__.keys()):
                yield f"{value.__name__}.{attribute}", value.__dict__[attribute]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        for _, child in _contents(path, cell):
            yield f"closure.{name}", child
    for child in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield f"{path}.__defaults__", child
    yield from ((_join(path, name), child) for name, child in function.__dict__.items())


def _contents(path: str, cell: types.CellType) -> Iterator[tuple[str, Any]]:
    try:
        yield path, cell.cell_contents
    except ValueError:
        return


def _of_object(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    try:
        attributes = (
            value.__dict__ if issubclass(type(value), type) else object.__getattribute__(value, "__dict__")
        )
    except Exception:  # noqa: BLE001 - no __dict__, or one that raises
        attributes = {}
    for name, child in list(attributes.items()):
        if name in ("_modules", "_parameters", "_buffers") and isinstance(child, dict):
            yield from ((_join(path, key), item) for key, item in child.items())
        else:
            yield _join(path, name), child
    if not issubclass(type(value), type):
        yield type(value).__qualname__, type(value)


def _shown(key: Any) -> str:
    return f"{key!r:.40}" if type(key) in PLAIN else f"a {type(key).__qualname__}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
