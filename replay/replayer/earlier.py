"""Plain values as an earlier call saw them: attributes of objects, globals, closure variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from replay.shipping import Placeholder


@contextmanager
def as_then(before: Mapping[str, Any] | None, function: FunctionType) -> Iterator[None]:
    """Inside, they are what they were at that call, as far as they were other than at the failing one."""
    recorded = before or {}
    places = list(_places(recorded, function))
    now = [(held, {name: held[name] for name in (*then, *new) if name in held}) for held, then, new in places]
    cells = _cells(function)
    contents = {name: cells[name].cell_contents for name in recorded.get("closure", {}) if name in cells}
    for held, then, new in places:
        held.update(then)
        for name in new:
            held.pop(name, None)
    for name in contents:
        cells[name].cell_contents = recorded["closure"][name]
    try:
        yield
    finally:
        for held, values in now:
            held.update(values)
        for name, value in contents.items():
            cells[name].cell_contents = value


def _places(
    recorded: Mapping[str, Any], function: FunctionType
) -> Iterator[tuple[dict[str, Any], Mapping[str, Any], Sequence[str]]]:
    """A dictionary, what it held then, and the names that it did not have."""
    for owner, attributes, *new in recorded.get("attributes", ()):  # the first bundles know no new names
        if not isinstance(owner, Placeholder):
            yield object.__getattribute__(owner, "__dict__"), attributes, new[0] if new else ()
    yield function.__globals__, recorded.get("globals", {}), ()


def _cells(function: FunctionType) -> dict[str, Any]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
