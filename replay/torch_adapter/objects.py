"""torch's private names for objects: what `replay.shipping` needs to know of them, one function each.

Every function imports torch itself, and raises `UnsupportedTorchError` with the name if it is gone. What to do
with the objects is decided in `replay.shipping`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from replay.errors import UnsupportedTorchError

REMADE_CLASS_ATTRIBUTES = frozenset({"_backward_cls", "_autograd_function_id", "_compiled_autograd_key"})
"""What torch's metaclasses put into a class by themselves."""


def find(path: str) -> Any:
    """The object that torch has under this dotted path, "torch._ops.OpOverload"."""
    import importlib

    import torch

    module, _, rest = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), rest)
    except (ImportError, AttributeError) as error:
        raise UnsupportedTorchError(
            f"this torch ({torch.__version__}) has no {path}; use a version of torch that replay supports"
        ) from error


def is_imported() -> bool:
    """Whether this process has torch; nothing is torch's otherwise."""
    return "torch" in sys.modules


def pytree_registration(cls: type) -> dict[str, Any] | None:
    """How a class is registered with torch's pytree; None if it is not."""
    if "torch.utils._pytree" not in sys.modules:
        return None
    node = find("torch.utils._pytree.SUPPORTED_NODES").get(cls)
    if node is None:
        return None
    serialized = find("torch.utils._pytree.SUPPORTED_SERIALIZED_TYPES").get(cls)
    return {
        "functions": (node.flatten_fn, node.unflatten_fn),
        "flatten_with_keys_fn": getattr(node, "flatten_with_keys_fn", None),
        "serialized_type_name": getattr(serialized, "serialized_type_name", None),
    }


def register_pytree(cls: type, registration: dict[str, Any]) -> Callable[[], None]:
    """Register a class as it was; the result undoes it."""
    register, deregister = (
        find("torch.utils._pytree.register_pytree_node"),
        find("torch.utils._pytree._deregister_pytree_node"),
    )
    named = registration["serialized_type_name"]
    options = {"flatten_with_keys_fn": registration["flatten_with_keys_fn"]}
    if isinstance(named, str) and named not in find("torch.utils._pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE"):
        options["serialized_type_name"] = named
    register(cls, *registration["functions"], **options)
    return lambda: deregister(cls)


def compiled_options(wrapper: Any) -> dict[str, Any]:
    """The arguments of `torch.compile` that made a compiled function or an `OptimizedModule`."""
    context = wrapper.__dict__.get("dynamo_ctx") or _closure(wrapper).get("self")
    if context is None:
        return {}
    backend = find("torch._dynamo.eval_frame.innermost_backend")(context.callback)
    name = getattr(backend, "compiler_name", None)
    options: dict[str, Any] = {"backend": name if isinstance(name, str) else backend}
    if isinstance(name, str) and getattr(backend, "config", None):
        options["options"] = dict(backend.config)
    if options["backend"] is None or isinstance(options["backend"], bool):
        return {}
    options["dynamic"] = getattr(context, "_dynamic", None)
    options["fullgraph"] = bool(getattr(context, "error_on_graph_break", getattr(context, "nopython", False)))
    return options


def wrapped_by_dynamo(function: Any) -> tuple[str, Any] | None:
    """("compile" or "disable", the original) of what `torch.compile` or `torch.compiler.disable` made of a function."""
    values = function.__dict__
    original = values.get("_torchdynamo_orig_callable")
    if original is None or values.get("_torchdynamo_wrapper_id", id(function)) != id(function):
        return None
    return ("disable" if values.get("_torchdynamo_disable") else "compile"), original


def original_module(module: Any) -> Any:
    """The module that was compiled."""
    return module._orig_mod


def custom_ops(names: frozenset[str]) -> list[Any]:
    """The operators defined in Python that code with these names may reach as `torch.ops.namespace.name`."""
    if "torch._library.custom_ops" not in sys.modules or "ops" not in names:
        return []
    import torch

    found = [
        operator
        for name, operator in list(find("torch._library.custom_ops.OPDEFS").items())
        if _is_named(name, names)
    ]
    defined = {name.partition(".")[0] for name in find("torch.library._defs")}
    for name in sorted(defined - set(find("torch._library.custom_ops.OPDEFS"))):
        if _is_named(name, names):
            namespace, _, short = name.partition("::")
            found.append(getattr(getattr(torch.ops, namespace), short))
    return found


def _is_named(qualified: str, names: frozenset[str]) -> bool:
    namespace, _, name = qualified.replace("/", "::").partition("::")
    return namespace in names and name in names


def higher_order_type() -> Any:
    """The class of operators that take functions, such as `cond`."""
    return find("torch._ops.HigherOrderOperator")


def custom_op_type() -> Any:
    """The class of operators that `torch.library.custom_op` makes."""
    return find("torch._library.custom_ops.CustomOpDef")


def holds_operators(cls: type) -> bool:
    """Whether a class of modules is that of `torch.ops` or one of its namespaces."""
    return cls.__module__ == "torch._ops"


def custom_op_definition(qualified_name: str) -> Any:
    """The `CustomOpDef` of an operator, None if it is not one."""
    return find("torch._library.custom_ops.OPDEFS").get(qualified_name)


def custom_op_parts(definition: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What makes a custom operator again: (name, schema, function), and (fake, backward, setup_context, vmap)."""
    return (definition._qualname, definition._schema, definition._init_fn), (
        definition._abstract_fn,
        definition._backward_fn,
        definition._setup_context_fn,
        getattr(definition, "_vmap_fn", None),
    )


def make_custom_op(qualified_name: str, schema: str, function: Any) -> tuple[Any, Callable[[], None]]:
    """Define the operator, or find it if this process has it; the second result undoes what was done."""
    existing = custom_op_definition(qualified_name)
    if existing is not None:
        return existing, lambda: None
    kind = find("torch._library.custom_ops.CustomOpDef")
    namespace, _, name = qualified_name.partition("::")
    made = kind(namespace, name, schema, function)
    made.register_kernel(None)(function)

    def undo() -> None:
        made._lib._destroy()
        find("torch._library.custom_ops.OPDEFS").pop(qualified_name, None)

    return made, undo


def forget_imports() -> None:
    """Drop the modules that Dynamo remembers by name, because other ones have these names now.

    Without Dynamo's cache (it was not imported, or this torch has none) there is nothing to forget.
    """
    dynamo = sys.modules.get("torch._dynamo.symbolic_convert")
    clear = getattr(getattr(dynamo, "_import_module", None), "cache_clear", None)
    if clear is not None:
        clear()


def operator_parts(operator: Any) -> tuple[str, str, str | None]:
    """(namespace, name, overload) of an `OpOverload`, or with None of an `OpOverloadPacket`."""
    if hasattr(operator, "_qualified_op_name"):
        namespace, _, name = operator._qualified_op_name.partition("::")
        return namespace, name, None
    namespace, _, name = operator._schema.name.partition("::")
    return namespace, name, operator._overloadname


def library_schemas(namespace: str, name: str) -> list[tuple[str, Any]]:
    """(schema, fake) of each overload of an operator that `torch.library.Library.define` made; none for torch's own."""
    import torch

    known = {entry.replace("/", "::") for entry in find("torch.library._defs")}
    full = f"{namespace}::{name}"
    if not any(entry.partition(".")[0] == full for entry in known):
        return []
    packet = getattr(getattr(torch.ops, namespace), name)
    registry = find("torch._library.simple_registry.singleton")
    found = []
    for overload in packet.overloads():
        schema = getattr(packet, overload)._schema
        kernel = registry.find(full).fake_impl.kernel
        found.append((str(schema).partition("::")[2], kernel.func if kernel is not None else None))
    return found


def define_in_library(
    namespace: str, name: str, schemas: list[tuple[str, Any]], implementation: Any
) -> Callable[[], None]:
    """Define an operator by schema and fake; calling it calls `implementation`. Nothing if it is there already."""
    import torch

    if hasattr(getattr(torch.ops, namespace), name):
        return lambda: None
    library: Any = torch.library.Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema, fake in schemas:
        library.define(schema)
        short = schema.partition("(")[0]
        library.impl(short, implementation, "CompositeExplicitAutograd")
        if fake is not None:
            torch.library.register_fake(f"{namespace}::{short}", fake, lib=library)
    undo: Callable[[], None] = library._destroy
    return undo


def make_typed_storage(storage: Any, dtype: Any) -> Any:
    """The deprecated typed storage around an untyped one, which tensors' own pickling still uses."""
    return find("torch.storage.TypedStorage")(wrap_storage=storage, dtype=dtype, _internal=True)


def untyped_storage(storage: Any) -> Any:
    """The untyped storage in a typed one."""
    return storage._untyped_storage


def _closure(function: Any) -> dict[str, Any]:
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if cells else ()
    found = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found
