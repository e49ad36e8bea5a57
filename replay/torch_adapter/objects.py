"""torch's private names for objects: what `replay.shipping` needs to know of them, one function each.

Every function imports torch itself, and raises `UnsupportedTorchError` with the name if it is gone. What to do
with the objects is decided in `replay.shipping`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from replay.errors import UnsupportedTorchError
from replay.torch_adapter import backward_nodes, compiling

ASKED_BY_DYNAMO = {"einops": frozenset({"rearrange", "reduce", "repeat", "einsum", "pack", "unpack"})}
"""What Dynamo itself asks of a library's module (`trace_rules.add_module_init_func`), before it traces anything."""

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
    context = wrapper.__dict__.get("dynamo_ctx") or closure_of(wrapper).get("self")
    if context is None:
        return {}
    backend = compiling.innermost(context.callback)
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


def is_captured_backward(module: Any) -> bool:
    """Whether a module is a graph of compiled autograd's: its code, not its nodes, is what a replay needs."""
    graphs = sys.modules.get("torch.fx.graph_module")
    if graphs is None or not isinstance(module, graphs.GraphModule):
        return False
    variables = getattr(getattr(type(module), "forward", None), "__globals__", {})
    return any(name.startswith(backward_nodes.MARK) for name in variables)


def without_graph(module: Any) -> dict[str, Any]:
    """What a graph module holds as any other module does, and which inputs its code may drop as it runs."""
    import torch

    kept = {*torch.nn.Module().__dict__, "meta"}
    tensors = {*module._parameters, *module._buffers, *module._modules}
    return {name: value for name, value in module.__dict__.items() if name in kept or name in tensors}


def is_context(cls: type) -> bool:
    """Whether this is the class of the `ctx` that a user's autograd.Function gets."""
    function = sys.modules.get("torch.autograd.function")
    base = getattr(function, "BackwardCFunction", None)
    return base is not None and issubclass(cls, base) and hasattr(cls, "_forward_cls")


def function_of(context: Any) -> Any:
    """The autograd.Function that a context belongs to."""
    return type(context)._forward_cls


def make_context(function: Any) -> Any:
    """A context of this autograd.Function, as its `apply` makes one."""
    return function._backward_cls()


def original_module(module: Any) -> Any:
    """The module that was compiled."""
    return module._orig_mod


def forget_imports() -> None:
    """Drop the modules that Dynamo remembers by name, where other ones have these names now.

    Without Dynamo's cache (it was not imported, or this torch has none) there is nothing to forget.
    """
    dynamo = sys.modules.get("torch._dynamo.symbolic_convert")
    clear = getattr(getattr(dynamo, "_import_module", None), "cache_clear", None)
    if clear is None:
        return
    clear()
    for module in list(sys.modules.values()):
        variables = getattr(module, "__dict__", None)
        if type(variables) is dict:
            for alias in [name for name in variables if type(name) is str and name.startswith(_ALIAS)]:
                meant = variables[alias]
                if isinstance(meant, ModuleType) and sys.modules.get(meant.__name__) is not meant:
                    del variables[alias]


_ALIAS = "__import_"
"""Under such names Dynamo puts a module that inlined code uses into the globals of the frame; it expects the same one
there the next time."""


def make_typed_storage(storage: Any, dtype: Any) -> Any:
    """The deprecated typed storage around an untyped one, which tensors' own pickling still uses."""
    return find("torch.storage.TypedStorage")(wrap_storage=storage, dtype=dtype, _internal=True)


def untyped_storage(storage: Any) -> Any:
    """The untyped storage in a typed one."""
    return storage._untyped_storage


def closure_of(function: Any) -> dict[str, Any]:
    """A function's closure variables that have a value, by name."""
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if cells else ()
    found = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found
