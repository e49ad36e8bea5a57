"""What an object holds, read from its dictionaries: no code of the user's runs, no attribute is asked for.

A module's submodules, parameters and buffers count as its attributes, as they do for code. What of it is
reached, or worth leaving out, is decided in `replay.recorder`.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from replay.torch_adapter import features

TABLES = ("_modules", "_parameters", "_buffers")


def is_module(value: Any) -> bool:
    """Whether it is a torch.nn.Module."""
    return is_module_class(type(value))


def is_module_class(cls: type) -> bool:
    """Whether a class is one of modules."""
    return issubclass(cls, features.module("torch").nn.Module)


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of any class."""
    return issubclass(type(value), features.module("torch").Tensor)


def attributes(value: Any) -> dict[str, Any]:
    """Attributes by name, without a module's own tables, hooks and switches; slots too."""
    try:
        held = dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError, ValueError):
        held = {}
    if is_module(value):
        for table in TABLES:
            held.update(held.pop(table, None) or {})
        for name in _internal():
            held.pop(name, None)
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            member = kind.__dict__.get(name)
            if type(member).__name__ == "member_descriptor":
                try:
                    held[name] = member.__get__(value)  # type: ignore[union-attr]
                except AttributeError:
                    continue
    return held


def submodules(value: Any) -> list[Any]:
    """A module's children; of anything else, none."""
    if not is_module(value):
        return []
    return [one for one in (value.__dict__.get("_modules") or {}).values() if one is not None]


def hooks(module: Any) -> list[Any]:
    """What is called around a module's `forward`, whatever it is."""
    found: list[Any] = []
    for name, held in module.__dict__.items():
        if name in _internal() and isinstance(held, dict) and name not in TABLES:
            found += held.values()
    return found


def is_plain_module_class(cls: type) -> bool:
    """Whether a class of modules has its attributes and state as torch.nn.Module has, and no other base of torch's."""
    torch = features.module("torch")
    ours = torch.nn.Module
    return all(
        base in (ours, object) or not str(base.__module__).startswith(("torch.", "torch_", "functorch"))
        for base in cls.__mro__
    ) and all(
        getattr(cls, name, None) is getattr(ours, name, None)
        for name in (
            *("__getattr__", "__getattribute__", "__setattr__", "__getstate__", "__setstate__"),
            *("__reduce__", "__reduce_ex__", "__call__"),
        )
    )


def tensor_nbytes(tensor: Any) -> int:
    """Bytes that a tensor's elements take; 0 where it does not say."""
    try:
        return int(tensor.numel()) * int(tensor.element_size())
    except Exception:  # noqa: BLE001 - a subclass, a nested tensor
        return 0


def is_torchs(value: Any) -> bool:
    """Whether it is a constant, function or class of torch's own (a dtype, a device, torch.relu)."""
    kind = value if issubclass(type(value), type) else type(value)
    function = type(value) in (types.FunctionType, types.BuiltinFunctionType)
    name = value.__module__ if function else kind.__module__
    return str(name or kind.__module__).partition(".")[0] == "torch" and not is_module(value)


@functools.lru_cache(maxsize=1)
def _internal() -> frozenset[str]:
    return frozenset(features.module("torch").nn.Module().__dict__)
