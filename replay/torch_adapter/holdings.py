"""What a value holds, flat: every tensor, number and container by the path that leads to it.

`output[0].loss`, `self.layers.0.weight`, `x['ids']`. For telling what a frame gave and what it wrote to. No code of the
user's runs: attributes are read from where objects keep them. Nothing here compares.
"""

from __future__ import annotations

import enum
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType
from typing import Any

from replay.torch_adapter import features

MOST = 200_000
"""At most so many things are looked at."""

SMALL, COPIED = 1 << 20, 64 << 20
"""Bytes of a tensor that is copied before the call, and of all that are, at most."""

_PLAIN = (bool, int, float, complex, str, bytes, bytearray, range, slice, enum.Enum, type(None))
_FOREIGN = frozenset({*sys.stdlib_module_names, "torch", "numpy", "replay", "triton", "sympy"}) - {"__main__"}
_OF_TORCH = ("torch.nn", "torch.optim", "torch.distributions")
"""Where torch keeps classes whose objects hold values of the user's."""
_COMPILERS = ("_dynamo", "_torchdynamo", "_compiled")
"""How attributes begin that the compiler puts on objects."""


@dataclass(frozen=True, slots=True)
class Container:
    """Something that holds others: what it is, how many, and in which order its keys stand."""

    kind: str
    size: int
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that is not looked into."""

    kind: str


@dataclass(frozen=True, slots=True)
class Holdings:
    """What was found. Each object stands under the first path that leads to it."""

    found: Mapping[str, Any]  # path -> tensor, plain value, Container or Opaque
    whole: bool  # False: there is more than MOST

    def tensors(self) -> dict[str, Any]:
        """The tensors alone."""
        tensor = features.module("torch").Tensor
        return {path: one for path, one in self.found.items() if issubclass(type(one), tensor)}


def look(roots: Mapping[str, Any]) -> Holdings:
    """Look into values, by their names."""
    torch = features.module("torch")
    found: dict[str, Any] = {}
    seen: dict[int, Any] = {}
    waiting = deque(roots.items())
    while waiting and len(found) < MOST:
        path, value = waiting.popleft()
        if id(value) in seen and not _is_plain(torch, value):
            continue
        seen[id(value)] = value
        found[path], inside = _open(torch, path, value)
        waiting.extendleft(reversed(list(inside)))
    return Holdings(found, not waiting)


def roots_of(function: Any, positional: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """What a call of a function starts from: its arguments, its closure, the globals that its code names."""
    code = function.__code__
    names = list(code.co_varnames[: code.co_argcount])
    extra = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :][:1] or ("arguments",)
    names += [f"{extra[0]}[{at}]" for at in range(len(positional) - len(names))]
    roots = {**dict(zip(names, positional, strict=False)), **keywords}
    for name, value in _closed_over(function):
        roots.setdefault(name, value)
    for name in _names(code):
        if name in function.__globals__:
            roots.setdefault(name, function.__globals__[name])
    return roots


def _names(code: Any) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is type(code):
            yield from _names(constant)


def _closed_over(function: Any) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the cell is empty
            continue


def _is_plain(torch: Any, value: Any) -> bool:
    kind = type(value)
    return issubclass(kind, _PLAIN) or kind in (torch.dtype, torch.device, torch.layout, torch.Size)


def _open(torch: Any, path: str, value: Any) -> tuple[Any, Iterator[tuple[str, Any]]]:
    """What stands for a value, and what it holds."""
    kind, nothing = type(value), iter(())
    if issubclass(kind, torch.Tensor) or _is_plain(torch, value):
        return value, nothing
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return _as_tensor(torch, value), nothing
    if issubclass(kind, dict):
        labels = tuple(_label(torch, at, key) for at, key in enumerate(dict.keys(value)))
        items = zip(labels, dict.values(value), strict=True)
        held = ((f"{path}[{label}]", one) for label, one in items)
        return Container(_name(kind), len(labels), labels), _chain(held, _attributes(torch, path, value))
    for base in (list, tuple, deque):
        if issubclass(kind, base):
            inside = list(base.__iter__(value))
            held = ((f"{path}[{at}]", one) for at, one in enumerate(inside))
            return Container(_name(kind), len(inside)), _chain(held, _attributes(torch, path, value))
    if issubclass(kind, (set, frozenset)):
        inside = list((set if issubclass(kind, set) else frozenset).__iter__(value))
        shown = sorted(repr(one) if _is_plain(torch, one) else _name(type(one)) for one in inside)
        return Container(_name(kind), len(inside), tuple(shown)), nothing
    if kind is CellType:
        return Opaque("cell"), nothing
    if kind is FunctionType:
        held = ((f"{path}.{name}", one) for name, one in _closed_over(value))
        return Opaque("function"), nothing if _is_foreign(value.__module__) else held
    if kind is MethodType:
        return Opaque("method"), iter([(f"{path}.__self__", value.__self__)])
    return Opaque(_name(kind)), _attributes(torch, path, value)


def _chain(*parts: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for part in parts:
        yield from part


def _attributes(torch: Any, path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What an object keeps under names, but for what torch's modules keep for themselves."""
    kind = type(value)
    if kind.__module__ == "builtins" or issubclass(kind, (type, type(sys))) or _is_foreign(kind.__module__):
        return
    own = _own_names(torch, kind)
    for name, one in _slots(value):
        if name in ("_parameters", "_buffers", "_modules") and issubclass(kind, torch.nn.Module):
            for inner, part in dict.items(one):
                if part is not None:
                    yield f"{path}.{inner}", part
        elif name not in own and not name.startswith(_COMPILERS):
            yield f"{path}.{name}", one


def _slots(value: Any) -> Iterator[tuple[str, Any]]:
    for cls in type(value).__mro__:
        if cls.__module__.partition(".")[0] == "replay":
            return  # what stands for a missing object
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            try:
                yield name, object.__getattribute__(value, name)
            except AttributeError:
                continue
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return
    if type(held) is dict:
        yield from list(held.items())


def _own_names(torch: Any, kind: type) -> frozenset[str]:
    if not issubclass(kind, torch.nn.Module):
        return frozenset()
    return frozenset(torch.nn.Module().__dict__) - {"training", "_parameters", "_buffers", "_modules"}


def _is_foreign(module: Any) -> bool:
    """Whether a class of that module belongs to a library whose objects hold nothing of the user's."""
    name = str(module)
    return name.partition(".")[0] in _FOREIGN and not name.startswith(_OF_TORCH)


def _as_tensor(torch: Any, array: Any) -> Any:
    try:
        return torch.as_tensor(array)
    except TypeError:  # texts, objects
        return Opaque("numpy.ndarray")


def _label(torch: Any, at: int, key: Any) -> str:
    return repr(key) if _is_plain(torch, key) else f"#{at}"


def _name(kind: type) -> str:
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"


@dataclass(frozen=True, slots=True)
class Before:
    """A value as it was: itself, how often it was written to, and a copy of it where it is a small tensor."""

    value: Any
    version: int
    copy: Any


def remember(held: Holdings) -> dict[str, Before]:
    """What there is, to tell later what was written to. Some kernels write and count no write."""
    left, remembered = COPIED, {}
    for path, value in held.found.items():
        size = _size(value)
        copied = 0 < size <= min(SMALL, left)
        left -= size if copied else 0
        copy = value.detach().clone() if copied else None
        remembered[path] = Before(value, version(value), copy)
    return remembered


def _size(value: Any) -> int:
    """Bytes of a plain tensor with memory; 0 for all else."""
    torch = features.module("torch")
    plain = type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided
    return int(value.numel() * value.itemsize) if plain and value.device.type != "meta" else 0


def version(value: Any) -> int:
    """How often a tensor was written to; 0 for what counts no writes."""
    tensor = features.module("torch").Tensor
    if not issubclass(type(value), tensor):
        return 0
    try:
        return 0 if value.is_inference() else int(value._version)
    except (RuntimeError, ValueError):  # a parameter that is not made yet, a subclass that answers nothing
        return 0
