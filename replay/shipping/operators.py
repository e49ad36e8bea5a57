"""Operators: torch's own by name, those of `custom_op` whole, those of a `Library` or of C++ as schema and fake."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from replay.errors import MissingError
from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.loading import Loading, builder
from replay.torch_adapter import libraries, operators

DEFAULTS: tuple[Any, ...] = (None, [], ["CompositeExplicitAutograd"])
"""Gradient, tags and keys in a recording that does not say."""


def reduce_operators(dumping: Dumping, namespace: Any) -> Reduced:
    """torch.ops, or one of its namespaces."""
    import torch

    return make_operators, ("" if namespace is torch.ops else namespace.name,)


@builder
def make_operators(loading: Loading, namespace: str) -> Any:
    """torch.ops, or one of its namespaces."""
    import torch

    return getattr(torch.ops, namespace) if namespace else torch.ops


def reduce_operator(dumping: Dumping, operator: Any) -> Reduced:
    """An operator by its name; one that somebody else than torch has defined, with its definition."""
    namespace, name, overload = operators.operator_parts(operator)
    definition = operators.custom_op_definition(f"{namespace}::{name}")
    schemas = [] if definition is not None else libraries.library_schemas(namespace, name)
    library = _library(dumping, namespace) if schemas else None
    return make_operator, (namespace, name, overload, definition, schemas, library)


def _library(dumping: Dumping, namespace: str) -> str | None:
    """The installed package that has the namespace's name, as torchvision does, and surely defines its operators."""
    if namespace not in sys.modules or dumping.policy.by_value(namespace):
        return None
    dumping.policy.refer(namespace)
    return namespace


@builder
def make_operator(  # noqa: PLR0917 - the stream calls it by position
    loading: Loading,
    namespace: str,
    name: str,
    overload: str | None,
    definition: Any,
    schemas: list[tuple[Any, ...]],
    library: str | None = None,
) -> Any:
    """`definition` needs only to have been made; `schemas` are those of an operator without one."""
    import torch

    if library is not None:
        _import(library)
    if schemas:
        whole = [(*schema, *DEFAULTS[len(schema) - 2 :]) for schema in schemas]
        defined = libraries.define_in_library(namespace, name, whole, _unknown(loading, namespace, name))
        if defined is not None:
            loading.last.append(defined[0])
            loading.undo.callback(defined[1])
    packet = getattr(getattr(torch.ops, namespace), name)
    return packet if overload is None else getattr(packet, overload or "default")


def _import(library: str) -> None:
    """Let the library define its operators itself, if it is here and works."""
    try:
        importlib.import_module(library)
    except Exception:  # noqa: BLE001, S110 - absent or broken: the schemas do
        pass


def _unknown(loading: Loading, namespace: str, name: str) -> Callable[..., Any]:
    def implementation(*arguments: Any, **keywords: Any) -> Any:
        loading.touch(f"torch.ops.{namespace}.{name}")
        raise MissingError(
            f"the kernel of torch.ops.{namespace}.{name} is not in the recording, only its schema and its fake; "
            "import the library that defines it before the replay"
        )

    return implementation


def reduce_custom_op(dumping: Dumping, definition: Any) -> Reduced:
    """Schema and function; fake, backward and the rest follow, because they may refer to the operator."""
    made, registered = operators.custom_op_parts(definition)
    return make_custom_op, made, registered, None, None, fill_custom_op


@builder
def make_custom_op(  # noqa: PLR0917 - the stream calls it by position
    loading: Loading,
    name: str,
    schema: str,
    function: Any,
    devices: list[str | None] | tuple[None] = (None,),
    tags: list[str] | tuple[()] = (),
) -> Any:
    """The operator with its kernels; unregistered when the load ends."""
    made, undo = operators.make_custom_op(name, schema, function, [*devices], [*tags])
    if undo is not None:
        loading.undo.callback(undo)
        loading.keep.append(made)
    return made


@builder
def fill_custom_op(loading: Loading, definition: Any, state: Reduced) -> None:
    """Register the rest; an operator that this process had before stays as it is."""
    if not any(one is definition for one in loading.keep):
        return
    fake, backward, setup_context, vmap, *rest = state
    if fake is not None:
        definition.register_fake(fake)
    if backward is not None:
        definition.register_autograd(backward, setup_context=setup_context)
    if vmap is not None:
        definition.register_vmap(vmap)
    for one in rest:
        operators.register_rest(definition, one)
