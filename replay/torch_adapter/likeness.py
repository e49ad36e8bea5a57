"""Whether two modules are alike: the same classes, attributes, and tensors by kind and shape. Values do not count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from replay.torch_adapter import anatomy, features

PLAIN = (bool, int, float, str, type(None))
"""Attributes of these types can be set after a constructor has run."""


@dataclass(slots=True)
class Likeness:
    """What two modules have in common: modules and tensors of the first, and `changed` plain attributes, by path."""

    held: list[tuple[str, Any]] = field(default_factory=list)
    changed: list[tuple[str, Any]] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=dict)


def compare(module: Any, other: Any) -> Likeness | None:
    """What the two have in common; None where they are not alike.

    What is one object in one of them must be one object in the other. Devices, dtypes of floating point and whether
    all parameters are frozen may differ, see `differences`; numbers, texts and the like may too.
    """
    found = Likeness()
    alike = _alike(module, other, found, "") and _can_be_settled(module, other)
    return found if alike else None


def _can_be_settled(module: Any, other: Any) -> bool:
    """Whether one dtype for all and freezing all can make up for what still differs."""
    mine = [one.dtype for one in _tensors(module) if one.dtype.is_floating_point]
    yours = [one.dtype for one in _tensors(other) if one.dtype.is_floating_point]
    wanted = [one.requires_grad for one in module.parameters()]
    given = [one.requires_grad for one in other.parameters()]
    return (mine == yours or len(set(mine)) == 1) and (wanted == given or not any(wanted))


def _alike(one: Any, other: Any, found: Likeness, path: str) -> bool:
    if id(one) in found.known:
        return found.known[id(one)] == id(other)
    if type(one) in PLAIN and type(other) in PLAIN and path.rpartition(".")[2].isidentifier():
        if type(one) is not type(other) or one != other:
            found.changed.append((path, one))
        return True
    if type(one) is not type(other):
        return False
    if not anatomy.is_module(one) and not anatomy.is_tensor(one):
        return _same_plain(one, other)
    found.known[id(one)] = id(other)
    found.held.append((path, one))
    if anatomy.is_tensor(one):
        return _same_tensor(one, other)
    if anatomy.hooks(other) or mode(one) == "mixed":
        return False
    mine, yours = attributes(one), attributes(other)
    return mine.keys() == yours.keys() and all(
        _alike(mine[name], yours[name], found, f"{path}.{name}") for name in mine
    )


def attributes(module: Any) -> dict[str, Any]:
    """A module's attributes, without the mark that torch.compile leaves on it."""
    return {name: one for name, one in anatomy.attributes(module).items() if name != "_is_torch_compile"}


def buffers(module: Any) -> dict[str, bool]:
    """A module's own buffers: whether each is part of its state."""
    passing = module.__dict__.get("_non_persistent_buffers_set", ())
    return {name: name not in passing for name, _ in module.named_buffers(recurse=False)}


def mode(module: Any) -> Literal["train", "eval", "mixed"]:
    """Whether a module and all in it are in training mode, in evaluation mode, or some in each."""
    found = {bool(one.training) for one in _modules(module)}
    return "mixed" if len(found) > 1 else "train" if True in found else "eval"


def _modules(module: Any) -> Iterator[Any]:
    """A module and all in it; what stands for one that is not in the recording is left out."""
    yield module
    for one in anatomy.submodules(module):
        if anatomy.is_module(one):
            yield from _modules(one)


def _same_tensor(one: Any, other: Any) -> bool:
    torch = features.module("torch")
    floating = one.dtype.is_floating_point and other.dtype.is_floating_point
    return (
        tuple(one.shape) == tuple(other.shape)
        and one.stride() == other.stride()
        and (one.dtype == other.dtype or floating)
        and one.is_leaf == other.is_leaf
        and isinstance(one, torch.nn.Parameter) == isinstance(other, torch.nn.Parameter)
        and one.grad is None
    )


def _same_plain(one: Any, other: Any) -> bool:
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(_same_plain(a, b) for a, b in zip(one, other, strict=True))
    if type(one) is dict:
        return one.keys() == other.keys() and all(_same_plain(one[key], other[key]) for key in one)
    if anatomy.is_tensor(one) or anatomy.is_module(one):
        return False
    try:
        return one is other or (type(one) is type(other) and bool(one == other))
    except Exception:  # noqa: BLE001 - a comparison of the user's own
        return False


def differences(module: Any, other: Any) -> tuple[str | None, str | None, bool]:
    """What `other` lacks to be `module`: a device, a dtype of floating point ("torch.bfloat16"), being frozen."""
    mine, yours = _tensors(module), _tensors(other)
    device = _only({str(one.device) for one in mine} - {str(one.device) for one in yours})
    floats = {str(one.dtype) for one in mine if one.dtype.is_floating_point}
    usual = {str(one.dtype) for one in yours if one.dtype.is_floating_point}
    wanted = [one.requires_grad for one in module.parameters()]
    frozen = bool(wanted) and not any(wanted) and any(one.requires_grad for one in other.parameters())
    return device, _only(floats - usual), frozen


def has_parameters(module: Any) -> bool:
    """Whether a module has any parameter."""
    return next(module.parameters(), None) is not None


def _tensors(module: Any) -> list[Any]:
    return [*module.parameters(), *module.buffers()]


def _only(found: set[str]) -> str | None:
    return next(iter(found)) if len(found) == 1 else None
