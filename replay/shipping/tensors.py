"""Tensors: ordinary ones through the sink, the others by the parts that they are made of, which are tensors again.

So the bytes of every tensor, also of those inside a subclass or a sparse one, are the sink's, and its policy holds for
them. What the parts of a kind are is the business of `replay.torch_adapter.kinds`.
"""

from __future__ import annotations

from typing import Any

from replay.errors import MissingError
from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.loading import Loading, builder
from replay.shipping.placeholders import Placeholder, reduce_lost
from replay.shipping.plain import fill_plain
from replay.torch_adapter import kinds, objects, subclasses


def reduce_tensor(dumping: Dumping, tensor: Any) -> Any:
    """By the sink's key, with the attributes and hooks that Python code has set (`mark_dynamic` sets some)."""
    key = dumping.tensors.add(tensor)
    if key is None:
        return reduce_special_tensor(dumping, tensor)
    attributes, hooks = tensor.__dict__, kinds.hooks_of(tensor)
    if hooks:
        return make_tensor, (key,), (dict(attributes), {}, hooks, None), None, None, fill_special_tensor
    if attributes:
        return make_tensor, (key,), dict(attributes), None, None, fill_tensor
    return make_tensor, (key,)


@builder
def make_tensor(loading: Loading, key: str) -> Any:
    """The tensor that the source has under the key."""
    return loading.tensors.get(key)


@builder
def fill_tensor(loading: Loading, tensor: Any, attributes: dict[str, Any]) -> None:
    """Set its Python attributes."""
    if not isinstance(tensor, Placeholder):
        tensor.__dict__.update(attributes)


def reduce_special_tensor(dumping: Dumping, tensor: Any) -> Reduced:
    """A tensor that is not the sink's: a subclass's, sparse, quantized, nested, fake, ..."""
    try:
        kind, parts, traits = kinds.take_apart(tensor)
    except MissingError as error:
        return reduce_lost(dumping, tensor, str(error))
    for part in kinds.structure(kind, parts):
        if dumping.tensors.add(part) is not None:
            dumping.tensors.pin(part)
    state = (*kinds.python_state(kind, tensor), kinds.hooks_of(tensor), kinds.gradient_of(tensor))
    arguments = (kind, type(tensor), parts, traits)
    return make_special_tensor, arguments, state, None, None, fill_special_tensor


@builder
def make_special_tensor(
    loading: Loading, kind: str, cls: Any, parts: dict[str, Any], traits: dict[str, Any]
) -> Any:
    """The tensor from its parts, still without attributes."""
    return kinds.put_together(kind, cls, parts, traits, loading.tensors.device)


@builder
def fill_special_tensor(loading: Loading, tensor: Any, state: Reduced) -> None:
    """Set its attributes and slots; register its hooks."""
    attributes, slots, hooks, gradient = state
    if isinstance(tensor, Placeholder):
        return
    fill_plain(loading, tensor, (attributes, slots))
    kinds.add_hooks(tensor, hooks)
    if gradient is not None:
        tensor.grad = gradient


def reduce_fake_mode(dumping: Dumping, mode: Any) -> Reduced:
    """The mode of fake tensors, by its options."""
    return make_fake_mode, (subclasses.mode_options(mode),)


@builder
def make_fake_mode(loading: Loading, options: dict[str, bool]) -> Any:
    """A mode of its own; all fake tensors of the recorded one belong to it."""
    return subclasses.make_mode(options)


def reduce_storage(dumping: Dumping, storage: Any) -> Reduced:
    """By the sink's key."""
    return make_storage, (dumping.tensors.add_storage(storage),)


@builder
def make_storage(loading: Loading, key: str) -> Any:
    """The storage that the source has under the key."""
    return loading.tensors.get_storage(key)


def reduce_typed_storage(dumping: Dumping, storage: Any) -> Reduced:
    """By the untyped storage in it."""
    return make_typed_storage, (objects.untyped_storage(storage), storage.dtype)


@builder
def make_typed_storage(loading: Loading, storage: Any, dtype: Any) -> Any:
    """A typed storage around the untyped one."""
    return objects.make_typed_storage(storage, dtype)
