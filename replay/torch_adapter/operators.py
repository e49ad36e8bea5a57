"""torch's private names for operators: which are there, and those of `custom_op`, which are known whole.

Those that a `Library` or C++ defines are in `libraries.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from replay.torch_adapter.objects import closure_of, find

TORCHS_OWN = frozenset(
    {
        *(
            "aten",
            "prim",
            "prims",
            "aten_custom",
            "higher_order",
            "quantized",
            "quantized_decomposed",
            "_quantized",
        ),
        *(
            "c10d",
            "_c10d_functional",
            "_c10d_functional_autograd",
            "c10d_functional",
            "symm_mem",
            "fsdp",
            "_dtensor",
        ),
        *(
            "inductor",
            "_inductor_test",
            "rngprims",
            "debugprims",
            "profiler",
            "static_runtime",
            "cuda",
            "streams",
        ),
        *(
            "mkldnn",
            "mkl",
            "mkldnn_prepacked",
            "onednn",
            "xnnpack",
            "prepacked",
            "sparse",
            "_test",
            "debug",
            "export",
        ),
        *("_caffe2", "metal", "vulkan", "vulkan_prepack", "mtia", "rpc", "dist", "_torch_testing", "_nnapi"),
    }
)
"""Namespaces whose operators every torch has."""


def higher_order_type() -> Any:
    """The class of operators that take functions, such as `cond`."""
    return find("torch._ops.HigherOrderOperator")


def custom_op_type() -> Any:
    """The class of operators that `torch.library.custom_op` makes."""
    return find("torch._library.custom_ops.CustomOpDef")


def holds_operators(cls: type) -> bool:
    """Whether a class of modules is that of `torch.ops` or one of its namespaces."""
    return cls.__module__ == "torch._ops"


def named_in(names: frozenset[str]) -> list[Any]:
    """The operators of others than torch that code with these names may reach as `torch.ops.namespace.name`."""
    if "torch" not in sys.modules or "ops" not in names:
        return []
    import torch

    definitions = find("torch._library.custom_ops.OPDEFS")
    found = [definition for name, definition in list(definitions.items()) if _is_named(name, names)]
    for name in sorted({*defined_in_python(), *_reached(torch)} - set(definitions)):
        if _is_named(name, names):
            namespace, _, short = name.partition("::")
            found.append(getattr(getattr(torch.ops, namespace), short))
    return found


def defined_in_python() -> Iterator[str]:
    """What a `Library` of Python code defines, as `namespace::name`."""
    for entry in list(find("torch.library._defs")):
        yield entry.replace("/", "::").partition(".")[0]


def _reached(torch: Any) -> Iterator[str]:
    """What was asked for of the namespaces of others, also if C++ defines it."""
    packet = find("torch._ops.OpOverloadPacket")
    for namespace, operators in list(vars(torch.ops).items()):
        if namespace not in TORCHS_OWN and holds_operators(type(operators)):
            yield from (
                f"{namespace}::{name}"
                for name, one in list(vars(operators).items())
                if isinstance(one, packet)
            )


def _is_named(qualified: str, names: frozenset[str]) -> bool:
    namespace, _, name = qualified.partition("::")
    return namespace in names and name in names


def custom_op_definition(qualified_name: str) -> Any:
    """The `CustomOpDef` of an operator, None if it is not one."""
    return find("torch._library.custom_ops.OPDEFS").get(qualified_name)


def custom_op_parts(definition: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What makes a custom operator again, and what is registered later, because it may refer to the operator.

    (name, schema, function, devices of its kernels, tags), and (fake, backward, setup_context, vmap, the rest).
    """
    kernels = {device: _kernel(wrapped) for device, wrapped in definition._backend_fns.items()}
    function, triton = definition._init_fn, is_triton_op(definition)
    rest = {
        "kernels": {
            device: one for device, one in kernels.items() if one is not function and one is not None
        },
        "triton": triton,
        "autocast": {
            device: dtype for device, dtype in getattr(definition, "_autocast_dtype", {}).items() if dtype
        },
    }
    tags = [tag.name for tag in getattr(definition, "_tags", None) or ()]
    return (
        (
            definition._qualname,
            definition._schema,
            _of_triton(function) if triton else function,
            [*kernels],
            tags,
        ),
        (
            definition._abstract_fn,
            definition._backward_fn,
            definition._setup_context_fn,
            getattr(definition, "_vmap_fn", None),
            rest,
        ),
    )


def is_triton_op(definition: Any) -> bool:
    """Whether `torch.library.triton_op` made it."""
    return getattr(definition._init_fn, "__qualname__", "").startswith("triton_op.<locals>.")


def _of_triton(backend: Any) -> Any:
    return closure_of(backend).get("fn")


def _kernel(wrapped: Any) -> Any:
    """The function that was given to `register_kernel`, out of what torch wraps around it."""
    return closure_of(getattr(wrapped, "_torchdynamo_orig_callable", wrapped)).get("fn")


def make_custom_op(
    qualified_name: str, schema: str, function: Any, devices: list[str | None], tags: list[str]
) -> tuple[Any, Callable[[], None] | None]:
    """Define the operator, or find it if this process has it. The second result undoes what was done, if anything."""
    existing = custom_op_definition(qualified_name)
    if existing is not None:
        return existing, None
    import torch

    known = [getattr(torch.Tag, name) for name in tags if hasattr(torch.Tag, name)]
    namespace, _, name = qualified_name.partition("::")
    made = custom_op_type()(namespace, name, schema, function, known)
    for device in devices:
        made.register_kernel(device)(function)

    def undo() -> None:
        made._lib._destroy()
        find("torch._library.custom_ops.OPDEFS").pop(qualified_name, None)

    return made, undo


def register_rest(definition: Any, rest: Mapping[str, Any]) -> None:
    """Register what `custom_op_parts` calls the rest."""
    for device, kernel in rest["kernels"].items():
        definition.register_kernel(device)(kernel)
    for device, dtype in rest["autocast"].items():
        definition.register_autocast(device, dtype)
    if rest["triton"]:
        _decompose_when_functional(definition, definition._init_fn)


def _decompose_when_functional(definition: Any, function: Any) -> None:
    """As `triton_op` does: AOTAutograd sees the kernels inside the operator, not the operator."""
    triton = find("torch._library.triton.set_wrap_triton_enabled")

    def direct(*args: Any, **kwargs: Any) -> Any:
        with triton(False):
            return function(*args, **kwargs)

    def decomposed(mode: Any, operator: Any, types: Any, args: Any, kwargs: Any) -> Any:
        with mode:
            return function(*args, **kwargs)

    if None in definition._backend_fns:
        definition.register_kernel(None)(direct)
    mode = find("torch._subclasses.functional_tensor.FunctionalTensorMode")
    definition.register_torch_dispatch(mode, decomposed)


def operator_parts(operator: Any) -> tuple[str, str, str | None]:
    """(namespace, name, overload) of an `OpOverload`, or with None of an `OpOverloadPacket`."""
    if hasattr(operator, "_qualified_op_name"):
        namespace, _, name = operator._qualified_op_name.partition("::")
        return namespace, name, None
    namespace, _, name = operator._schema.name.partition("::")
    return namespace, name, operator._overloadname
