"""A place in a call of a frame, such as `self.step` or `items[0]`: what stands there, and something else in its stead.

What a frame is called with is replaced in copies of the arguments; what outlives the call (an attribute, a global, a
closure variable) is put back when the call is over. No compiler is known here.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import FunctionType
from typing import Any

Change = Callable[[Any], Any]
"""From what stands at a place to what is to stand there; the same object: nothing is replaced."""

_MODULE = "__import_"
"""How torch names a module among a function's globals: `__import_pkg_dot_nets`."""


class NoPlaceError(Exception):
    """The call has no such place, or nothing can be put there."""


@dataclass(slots=True)
class Arguments:
    """The arguments of one call, which a change replaces."""

    positional: tuple[Any, ...]
    keywords: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A variable of a function and the way from it; see `replay.recompilation.sources`."""

    root: str  # "local" or "global"
    name: str
    path: tuple[tuple[str, Any], ...]

    @staticmethod
    def of(step: Mapping[str, Any]) -> Place:
        """The place that a request's step names."""
        return Place(step["root"], step["name"], tuple((kind, key) for kind, key in step["path"]))

    @property
    def shown(self) -> str:
        """Its path as `torch_adapter.holdings` writes it."""
        parts = (f".{key}" if kind == "attribute" else f"[{key!r}]" for kind, key in self.path)
        return self.name + "".join(parts)


def change(
    place: Place, function: FunctionType, arguments: Arguments, how: Change, undone: ExitStack
) -> None:
    """Change what stands at a place, for one call of `function`; `undone` puts back what outlives it.

    Raises NoPlaceError where the call has no such place.
    """
    if place.root == "global":
        table = _globals(function, place.name)
        _replace_in_table(table, place, how, undone)
    elif place.name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(place.name)]
        _replace_in_cell(cell, place.path, how, undone)
    else:
        _replace_argument(place, function, arguments, how, undone)


def owner(place: Place, function: FunctionType, arguments: Arguments) -> Any:
    """What has the place as a part of itself. Raises NoPlaceError where the call has no such place."""
    found: list[Any] = []

    def look(value: Any) -> Any:
        found.append(value)
        return value

    with ExitStack() as nothing:
        change(Place(place.root, place.name, place.path[:-1]), function, arguments, look, nothing)
    return found[0]


def is_module(value: Any) -> bool:
    """Whether it is a module of torch's."""
    return isinstance(value, sys.modules["torch"].nn.Module)


def _globals(function: FunctionType, name: str) -> dict[str, Any]:
    if name in function.__globals__:
        return function.__globals__
    module = name.removeprefix(_MODULE).replace("_dot_", ".")
    if name.startswith(_MODULE) and module in sys.modules:
        return {name: sys.modules[module]}
    raise NoPlaceError(f"there is no global {name}")


def _replace_in_table(table: dict[str, Any], place: Place, how: Change, undone: ExitStack) -> None:
    old = table[place.name]
    new = _changed(old, place.path, how, undone)
    if new is not old:
        table[place.name] = new
        undone.callback(table.__setitem__, place.name, old)


def _replace_in_cell(cell: Any, path: Sequence[tuple[str, Any]], how: Change, undone: ExitStack) -> None:
    old = _contents(cell)
    new = _changed(old, path, how, undone)
    if new is not old:
        cell.cell_contents = new
        undone.callback(setattr, cell, "cell_contents", old)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        raise NoPlaceError("a variable of the closure has no value") from None


def _replace_argument(
    place: Place, function: FunctionType, arguments: Arguments, how: Change, undone: ExitStack
) -> None:
    """The name of a parameter, also of `*args` and `**kwargs`. A default stands for what is not given."""
    try:
        bound = inspect.signature(function, follow_wrapped=False).bind(
            *arguments.positional, **arguments.keywords
        )
    except (TypeError, ValueError) as error:
        raise NoPlaceError(f"the arguments do not fit the function: {error}") from None
    bound.apply_defaults()
    if place.name not in bound.arguments:
        raise NoPlaceError(f"{place.name} is no argument")
    old = bound.arguments[place.name]
    new = _changed(old, place.path, how, undone)
    if new is not old:
        bound.arguments[place.name] = new
        arguments.positional, arguments.keywords = bound.args, dict(bound.kwargs)


def _changed(value: Any, path: Sequence[tuple[str, Any]], how: Change, undone: ExitStack) -> Any:
    if not path:
        return how(value)
    (kind, key), rest = path[0], path[1:]
    if kind == "cell":
        _replace_in_cell(_part(value, kind, key), rest, how, undone)
        return value
    old = _part(value, kind, key)
    new = _changed(old, rest, how, undone)
    if new is old:
        return value
    if kind == "attribute":
        _set_attribute(value, key, old, new, undone)
        return value
    return _with_item(value, key, new)


def _part(value: Any, kind: str, key: Any) -> Any:
    try:
        if kind == "attribute":
            return getattr(value, key)
        return value.__closure__[key] if kind == "cell" else value[key]
    except Exception as error:  # noqa: BLE001 - whatever an object of the user's raises
        raise NoPlaceError(f"there is no {key!r} in a {type(value).__name__}: {error}") from None


def _with_item(value: Any, key: Any, new: Any) -> Any:
    """A copy of a plain container with another item."""
    if type(value) in (list, dict):
        copy = value.copy()
        copy[key] = new
        return copy
    if type(value) is tuple:
        items = list(value)
        items[key] = new
        return tuple(items)
    raise NoPlaceError(f"nothing can be put into a {type(value).__name__}")


def _set_attribute(owner: Any, name: str, old: Any, new: Any, undone: ExitStack) -> None:
    """Of a module, a tensor in place of what is none becomes a buffer."""
    held = getattr(owner, "__dict__", {})
    buffer = is_module(owner) and isinstance(new, sys.modules["torch"].Tensor) and name in held
    try:
        if buffer:
            del held[name]
            owner.register_buffer(name, new, persistent=False)
            undone.callback(held.__setitem__, name, old)
            undone.callback(delattr, owner, name)
        elif name in held:
            held[name] = new
            undone.callback(held.__setitem__, name, old)
        else:
            setattr(owner, name, new)
            undone.callback(setattr, owner, name, old)
    except Exception as error:  # noqa: BLE001 - whatever an object of the user's raises
        raise NoPlaceError(f"{name} of a {type(owner).__name__} cannot be set: {error}") from None
