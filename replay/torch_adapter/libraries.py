"""Operators that a `Library` of Python or C++ defines: taken from torch's registries, and defined again.

The registries give the schema, the fake and the gradient formula. The kernels are held by the dispatcher alone and
cannot be had from there: what calls one is told so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replay.torch_adapter import operators
from replay.torch_adapter.objects import closure_of, find

DEVICE_KEYS = frozenset({"CPU", "CUDA", "XPU", "MPS"})
KERNEL_KEYS = (*sorted(DEVICE_KEYS), "CompositeExplicitAutograd", "CompositeImplicitAutograd", "Meta")


def library_schemas(namespace: str, name: str) -> list[tuple[Any, ...]]:
    """(schema, fake, gradient, tags, keys) of each overload of an operator of others than torch; none for torch's own.

    Keys are the dispatcher's for which there is a kernel.
    The gradient is None, or (backward, setup_context) as they were given to `torch.library.register_autograd`.
    """
    import torch

    full = f"{namespace}::{name}"
    if namespace in operators.TORCHS_OWN and full not in operators.defined_in_python():
        return []
    packet = getattr(getattr(torch.ops, namespace), name)
    found = []
    for overload in packet.overloads():
        operator = getattr(packet, overload)
        fake, tags = _fake_of(full, overload), [tag.name for tag in operator.tags]
        keys = [
            key
            for key in KERNEL_KEYS
            if _has_kernel(operator.name(), key) and (key != "Meta" or fake is None)
        ]
        found.append((str(operator._schema).partition("::")[2], fake, _gradient_of(operator), tags, keys))
    return found


def _has_kernel(name: str, key: str) -> bool:
    return bool(find("torch._C._dispatch_has_kernel_for_dispatch_key")(name, key))


def _fake_of(full: str, overload: str) -> Any:
    registry = find("torch._library.simple_registry.singleton")
    entry = registry.find(full if overload == "default" else f"{full}.{overload}")
    return entry.fake_impl.kernel.func if entry.fake_impl.kernel is not None else None


def _gradient_of(operator: Any) -> tuple[Any, Any] | None:
    """What `register_autograd` was given: the class that torch generates of it keeps both."""
    name = f"GeneratedBackwardFor_{operator._namespace}_{operator._opname}_{operator._overloadname}"
    for cls in find("torch.autograd.Function").__subclasses__():
        if cls.__name__ == name and "backward" in cls.__dict__:
            variables = closure_of(cls.__dict__["backward"].__func__)
            while "orig_backward" in variables:  # it takes lists of tensors
                variables = closure_of(variables["orig_backward"])
            info = variables.get("info")
            if info is not None and info._backward_fn is not None:
                return info._backward_fn, info._setup_context_fn
    return None


def define_in_library(
    namespace: str, name: str, schemas: list[tuple[Any, ...]], implementation: Any
) -> tuple[Any, Callable[[], None]] | None:
    """Define an operator by its schemas, with the fakes and gradients that are known.

    Calling it calls `implementation`. Gives a function that registers the rest when everything is loaded, and one that
    undoes it all; None if the operator is there already.
    """
    import torch

    if hasattr(getattr(torch.ops, namespace), name):
        return None
    library: Any = torch.library.Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema, _, _, tags, keys in schemas:
        known = tuple(getattr(torch.Tag, tag) for tag in tags if hasattr(torch.Tag, tag))
        library.define(schema, tags=known)
        for key in {
            *keys,
            *(["CPU"] if DEVICE_KEYS & {*keys} else []),
        }:  # a device that is not here is the CPU
            library.impl(schema.partition("(")[0], implementation, key)

    def register() -> None:
        for schema, fake, gradient, *_ in schemas:
            full = f"{namespace}::{schema.partition('(')[0]}"
            if fake is not None:
                torch.library.register_fake(full, fake, lib=library)
            if gradient is not None:
                backward, setup_context = gradient
                torch.library.register_autograd(full, backward, setup_context=setup_context, lib=library)

    undo: Callable[[], None] = library._destroy
    return register, undo
