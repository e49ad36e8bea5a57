"""Inputs as rows for people. Never runs code of the user's: no repr of an unknown object."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any, Literal

from replay.recorder import frames, remains
from replay.recording import InputInfo
from replay.torch_adapter import kinds, sketches, traits

LENGTH = 80
"""Characters of a value that are shown."""
DEPTH = 3
"""Containers and modules are looked into so deep for tensors to name."""

_SHOWN = (bool, int, float, complex, str, bytes, type(None), type(...), range, slice)
KeyOf = Callable[[Any], "str | None"]


def inputs(found: frames.Inputs, key_of: KeyOf) -> tuple[InputInfo, ...]:
    """Rows for arguments, closure variables and globals. `key_of` gives a recorded tensor's key."""
    return tuple(
        [_row(name, "argument", value, key_of) for name, value in found.named.items()]
        + [_row(name, "closure", value, key_of) for name, value in found.closure.items()]
        + [_row(name, "global", value, key_of) for name, value in found.globals.items()]
    )


def sketched(code: CodeType, f_locals: Mapping[str, Any]) -> tuple[InputInfo, ...]:
    """Rows for the arguments of an earlier call."""
    names = frames.argument_names(code)
    return tuple(_row(name, "argument", f_locals[name], lambda _: None) for name in names if name in f_locals)


def noted(closure: Mapping[str, Any], names: Mapping[str, Any]) -> tuple[InputInfo, ...]:
    """Rows for what an earlier call saw of closure variables and globals, functions and classes left out."""
    return tuple(
        [_row(name, "closure", value, lambda _: None) for name, value in closure.items()]
        + [_row(name, "global", value, lambda _: None) for name, value in names.items() if _is_data(value)]
    )


def _is_data(value: Any) -> bool:
    kept = _kept(value)
    return not isinstance(kept, (FunctionType, type)) and kept is not None


def short(value: Any) -> str:
    """One line for a value: itself if plain, a tensor's type, a container's length, else the type's name."""
    value = _kept(value)
    kind = type(value)
    if kind is remains.Instance:
        return f"{_class_name(value.kind())} object"
    if kind is remains.Gone:
        return f"{value.type} object"
    if isinstance(value, sketches.Tensor):
        return tensor(value.meta, value.device)
    if sketches.is_tensor(value):
        return tensor(value, str(value.device))
    if kind in _SHOWN:
        return _clipped(repr(value))
    if kind in (tuple, list, set, frozenset, dict):
        return _container(value)
    if kind is FunctionType:
        return f"function {value.__module__}.{value.__qualname__}"
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    return _object(value)


def tensor(value: Any, device: str) -> str:
    """`float32[2, 3] cpu`, `sparse_coo float32[3, 4] nnz=2 cpu`, and what is unusual about it."""
    special = kinds.summary(value)
    text = f"{special} {device}" if special else f"{traits.shaped(value)} {device}"
    marks = []
    if value.requires_grad:
        marks.append("requires_grad" if value.is_leaf else "requires_grad, not a leaf")
    if special is None and not value.is_contiguous():
        marks.append(f"stride {tuple(value.stride())}")
    return f"{text} ({'; '.join(marks)})" if marks else text


def type_name(value: Any) -> str:
    """Qualified name of a value's type, without a module for builtins."""
    value = _kept(value)
    kind = value.class_name if isinstance(value, sketches.Tensor) else None
    if kind:
        return str(kind)
    if type(value) is remains.Gone:
        return str(value.type)
    owner = value.kind() if type(value) is remains.Instance else type(value)
    if owner is None:  # the class is gone
        return "object"
    return (
        owner.__qualname__ if owner.__module__ == "builtins" else f"{owner.__module__}.{owner.__qualname__}"
    )


def _kept(value: Any) -> Any:
    """Of a sketch what it stands for, as far as that can be shown."""
    if type(value) is weakref.ref:
        target = value()
        return remains.Gone("object") if target is None else target
    if type(value) is remains.Made:
        target = value.reference()
        return remains.Gone(value.shown) if target is None else target
    return value


def _class_name(kind: Any) -> str:
    return "" if kind is None else str(kind.__qualname__)


def _row(name: str, role: Literal["argument", "closure", "global"], value: Any, key_of: KeyOf) -> InputInfo:
    keys = dict.fromkeys(key for found in _tensors(value, DEPTH) if (key := key_of(found)) is not None)
    return InputInfo(name=name, role=role, type=type_name(value), summary=short(value), tensors=tuple(keys))


def _tensors(value: Any, depth: int) -> Iterator[Any]:
    if sketches.is_tensor(value):
        yield from ((value,) if kinds.is_ordinary(value) else kinds.inner_tensors(value))
    elif depth and type(value) in (tuple, list):
        for item in value[:64]:
            yield from _tensors(item, depth - 1)
    elif depth and type(value) is dict:
        for item in list(value.values())[:64]:
            yield from _tensors(item, depth - 1)
    elif sketches.is_module(value):
        yield from sketches.module_tensors(value)


def _container(value: Any) -> str:
    items = list(value.values()) if type(value) is dict else list(value)
    if len(items) <= 8 and all(type(item) in _SHOWN for item in items):
        return _clipped(repr(value))
    kinds = sorted({type(item).__qualname__ for item in items})
    return _clipped(f"{type(value).__name__} of {len(items)}: {', '.join(kinds)}")


def _object(value: Any) -> str:
    if sketches.is_module(value):
        return sketches.module_summary(value)
    return f"{type(value).__qualname__} object"


def _clipped(text: str) -> str:
    return text if len(text) <= LENGTH else text[: LENGTH - 1] + "…"
