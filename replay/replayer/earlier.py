"""Plain values as an earlier call saw them: attributes of objects, globals, closure variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from replay.shipping import Placeholder


@contextmanager
def as_then(before: Mapping[str, Any] | None, function: FunctionType) -> Iterator[None]:
    """Inside, they are what they were at that call, as far as they were other than at the failing one."""
    places = list(_places(before or {}, function))
    now = [(held, name, held[name]) for held, then in places for name in then if name in held]
    for held, then in places:
        held.update(then)
    cells = _cells(function)
    contents = {
        name: cells[name].cell_contents for name in (before or {}).get("closure", {}) if name in cells
    }
    for name in contents:
        cells[name].cell_contents = (before or {})["closure"][name]
    try:
        yield
    finally:
        for held, name, value in now:
            held[name] = value
        for name, value in contents.items():
            cells[name].cell_contents = value


def _places(
    before: Mapping[str, Any], function: FunctionType
) -> Iterator[tuple[dict[str, Any], Mapping[str, Any]]]:
    for owner, attributes in before.get("attributes", ()):
        if not isinstance(owner, Placeholder):
            yield object.__getattribute__(owner, "__dict__"), attributes
    yield function.__globals__, before.get("globals", {})


def _cells(function: FunctionType) -> dict[str, Any]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
