"""A tensor of an earlier call, kept as metadata: a tensor on the device "meta" and what else matters."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from replay.torch_adapter import features, kinds
from replay.torch_adapter.undisturbed import undisturbed

_MARK = "_dynamo_"
"""How the names of attributes begin that torch._dynamo.mark_dynamic and its like give a tensor (torch 2.9 to 2.13)."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape, strides, dtype, device and whether it wants a gradient; no values."""

    meta: Any
    device: str
    parameter: bool
    class_name: str
    alive: Any  # a weak reference to the tensor itself
    special: bool = False  # of a class or layout that `meta` does not show
    marks: Mapping[str, Any] = field(default_factory=dict)  # what mark_dynamic and its like have set

    @classmethod
    def of(cls, tensor: Any) -> Any:
        """The sketch of a tensor, a subclass's as of an ordinary one; None where it has no plain shape (nested)."""
        torch = features.module("torch")
        with undisturbed():
            try:
                meta = torch.empty_strided(
                    tuple(map(int, tensor.shape)), _strides(tensor), dtype=tensor.dtype, device="meta"
                ).requires_grad_(tensor.requires_grad)
            except (RuntimeError, AttributeError, TypeError):
                return None
            device = str(tensor.device)
            special = not kinds.is_ordinary(tensor)
            marks = {name: copy.copy(value) for name, value in vars(tensor).items() if name.startswith(_MARK)}
        kind = type(tensor)
        name = f"{kind.__module__}.{kind.__qualname__}"
        return cls(meta, device, kind is torch.nn.Parameter, name, weakref.ref(tensor), special, marks)


def is_constant(value: Any) -> bool:
    """Whether a value is one of torch's own that never changes: a dtype, a device, a size."""
    torch = features.module("torch")
    return type(value) in (torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format)


def is_unchanged(kept: Tensor, now: Any) -> bool:
    """Whether a tensor still looks as it did: it may have been resized in place."""
    same = (tuple(now.shape), now.dtype) == (tuple(kept.meta.shape), kept.meta.dtype)
    return same and now.requires_grad == kept.meta.requires_grad


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of any class."""
    return isinstance(value, features.module("torch").Tensor)


def is_module(value: Any) -> bool:
    """Whether a value is a torch.nn.Module."""
    return isinstance(value, features.module("torch").nn.Module)


def module_tensors(module: Any) -> Iterator[Any]:
    """Parameters and buffers of a module, read from its dictionaries: no code of the user's runs."""
    for owner in _submodules(module):
        for name in ("_parameters", "_buffers"):
            yield from (one for one in owner.__dict__.get(name, {}).values() if one is not None)


def module_summary(module: Any) -> str:
    """`Block: 12 modules, 1,234 parameters`."""
    modules = list(_submodules(module))
    count = sum(
        one.numel()
        for owner in modules
        for one in owner.__dict__.get("_parameters", {}).values()
        if one is not None
    )
    return f"{type(module).__qualname__}: {len(modules)} modules, {count:,} parameters"


def _submodules(module: Any) -> Iterator[Any]:
    seen: set[int] = set()
    waiting = [module]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += one.__dict__.get("_modules", {}).values()


def grad_enabled() -> bool:
    """Whether this thread records gradients."""
    return bool(features.module("torch").is_grad_enabled())


def _strides(tensor: Any) -> tuple[int, ...]:
    try:
        return tuple(tensor.stride())
    except RuntimeError:  # sparse layouts have none
        return tuple(features.module("torch").empty(tuple(tensor.shape), device="meta").stride())
