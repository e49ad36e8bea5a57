"""Tensors that are not ordinary, taken apart into ordinary ones and put together again.

Ordinary is what `tensors.TensorCollector.add` takes: dense, with memory of its own, of no class of anybody's. The
rest has a kind here, which is a word of the bundle format: what it is made of. No code of a user's subclass
runs here. How they travel is decided in `replay.shipping.tensors`.
"""

from __future__ import annotations

import copyreg
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from replay.errors import MissingError
from replay.torch_adapter import features, layouts, subclasses, transforms
from replay.torch_adapter.traits import Device, Kind, layout, shaped
from replay.torch_adapter.undisturbed import undisturbed

Parts = tuple[str, dict[str, Any], dict[str, Any]]
"""A tensor's kind; the tensors and objects that it is made of; plain data."""

LIBRARYS_OWN = frozenset({"fake", "nested_jagged", "distributed"})
"""Kinds of torch's own subclasses, whose private attributes are set when they are made."""

CAPSULES = ("_sym_sizes_capsule", "_sym_strides_capsule")
"""Where torch keeps what a subclass last said of its sizes."""

STRUCTURE = {
    "sparse_coo": ("indices",),
    "sparse_compressed": ("compressed", "plain"),
    "nested_jagged": ("offsets", "lengths", "min_seqlen", "max_seqlen"),
    "nested_strided": ("_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets"),
}


def take_apart(tensor: Any) -> Parts:
    """The parts of a tensor that is not ordinary. Raises MissingError for one that cannot travel."""
    torch = features.module("torch")
    if transforms.is_transformed(torch, tensor) and not transforms.BATCHED.holds(torch, tensor):
        raise MissingError(
            "it belongs to a transform of torch.func that was running, and means nothing outside"
        )
    with undisturbed():
        kind = _kind_of(torch, tensor)
        parts, traits = kind.parts(torch, tensor)
        common = {
            "requires_grad": bool(tensor.requires_grad),
            "is_leaf": bool(tensor.is_leaf),
            "parameter": type(tensor) is torch.nn.Parameter,
            "dispatches": subclasses.dispatches(torch, type(tensor)),
        }
    return kind.name, parts, {**common, **traits}


def _kind_of(torch: Any, tensor: Any) -> Kind:
    found = next((kind for kind in KINDS if kind.holds(torch, tensor)), None)
    if found is None:
        raise MissingError(f"replay knows no tensors of the layout {layout(tensor)}")
    return found


def structure(kind: str, parts: Mapping[str, Any]) -> list[Any]:
    """The parts whose values say where the others belong: with made-up ones the tensor would be no valid one."""
    return [parts[name] for name in STRUCTURE.get(kind, ()) if parts.get(name) is not None]


def put_together(
    kind: str, cls: Any, parts: Mapping[str, Any], traits: Mapping[str, Any], device: Device
) -> Any:
    """The tensor again, without the attributes that Python code gave it."""
    torch = features.module("torch")
    known = BY_NAME.get(kind)
    if known is None:
        raise MissingError(f"this version of replay knows no tensors of the kind {kind!r}")

    def make(*, requires_grad: bool) -> Any:
        """One object; it may be wanted twice, once as the leaf and once as what is computed from it."""
        made = known.make(torch, cls, parts, {**traits, "requires_grad": requires_grad}, device)
        if type(made) is not cls and not traits["parameter"]:
            made = torch.Tensor._make_subclass(cls, made, requires_grad)
        return made.requires_grad_() if requires_grad and not made.requires_grad else made

    wants = bool(traits["requires_grad"])
    with undisturbed(), subclasses.dispatching(torch, cls, wanted=traits["dispatches"]):
        if traits["parameter"]:
            return torch.nn.Parameter(make(requires_grad=False), requires_grad=wants)
        if traits["is_leaf"] or not wants:
            return make(requires_grad=wants)
        leaf = make(requires_grad=True)
        return computed(torch, leaf, lambda: make(requires_grad=False))


def summary(tensor: Any) -> str | None:
    """For people: `sparse_coo float32[3, 4] nnz=2`; None for an ordinary tensor."""
    torch = features.module("torch")
    if is_ordinary(tensor):
        return None
    with undisturbed():
        try:
            return _kind_of(torch, tensor).says(tensor)
        except MissingError:
            transformed = transforms.is_transformed(torch, tensor)
            return f"{layout(tensor)} {shaped(tensor)}{' in a transform' if transformed else ''}"


def is_ordinary(tensor: Any) -> bool:
    """Whether a tensor is dense, of torch's own classes and outside every transform."""
    classes, strided, is_wrapped = _looked_up()
    return bool(
        type(tensor) in classes
        and tensor.layout is strided
        and not tensor.is_quantized
        and not tensor.is_nested
        and not is_wrapped(tensor)
    )


@functools.cache
def _looked_up() -> tuple[tuple[type, ...], Any, Callable[[Any], bool]]:
    """What `is_ordinary` compares with: it is asked for every tensor of a model."""
    torch = features.module("torch")
    native = features.require(features.require(torch, "_C"), "_functorch")
    is_wrapped = features.require(native, "is_functorch_wrapped_tensor")
    return (torch.Tensor, torch.nn.Parameter), torch.strided, is_wrapped


def inner_tensors(tensor: Any, depth: int = 8) -> Iterator[Any]:
    """The tensors that one which is not ordinary is made of; nothing where it cannot be told."""
    torch = features.module("torch")
    try:
        kind, parts, _ = take_apart(tensor)
    except Exception:  # noqa: BLE001 - a subclass's attributes may raise anything; shipping says so
        return
    for part in [*parts.values(), *(each for one in python_state(kind, tensor) for each in one.values())]:
        if isinstance(part, torch.Tensor) and is_ordinary(part):
            yield part
        elif isinstance(part, torch.Tensor) and depth:
            yield from inner_tensors(part, depth - 1)


def python_state(kind: str, tensor: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes and slots that Python code gave a tensor; without those that making it again sets."""
    cls = type(tensor)
    attributes = dict(object.__getattribute__(tensor, "__dict__"))
    slots = {}
    for name in copyreg._slotnames(cls):  # type: ignore[attr-defined]
        try:
            slots[name] = object.__getattribute__(tensor, name)
        except AttributeError:  # empty
            continue
    return _kept(kind, attributes), _kept(kind, slots)


def _kept(kind: str, state: Mapping[str, Any]) -> dict[str, Any]:
    def is_kept(name: str) -> bool:
        if kind not in LIBRARYS_OWN or name.startswith(("_is_param", "_dynamo_")):
            return True
        return kind != "fake" and not name.startswith("_")

    return {name: value for name, value in state.items() if is_kept(name) and not name.startswith(CAPSULES)}


def gradient_of(tensor: Any) -> Any:
    """The `.grad` of a leaf, else None."""
    with undisturbed():
        return tensor.grad if tensor.is_leaf and tensor.requires_grad else None


def hooks_of(tensor: Any) -> dict[str, list[Any]]:
    """The functions that `register_hook` and `register_post_accumulate_grad_hook` were given, in order."""
    backward, accumulated = tensor._backward_hooks, getattr(tensor, "_post_accumulate_grad_hooks", None)
    found = {}
    if backward:
        found["backward"] = list(backward.values())
    if accumulated:
        found["accumulated"] = list(accumulated.values())
    return found


def add_hooks(tensor: Any, hooks: Mapping[str, list[Any]]) -> None:
    """Register them again."""
    for hook in hooks.get("backward", ()):
        tensor.register_hook(hook)
    for hook in hooks.get("accumulated", ()):
        tensor.register_post_accumulate_grad_hook(hook)


KINDS = (transforms.BATCHED, *subclasses.KINDS, *layouts.KINDS)
"""In the order in which they are asked for."""
BY_NAME = {kind.name: kind for kind in KINDS}


def computed(torch: Any, leaf: Any, make: Callable[[], Any]) -> Any:
    """A tensor that autograd knows to be computed from the leaf, and that is no view of it."""

    class Recorded(torch.autograd.Function):  # type: ignore[misc]  # torch is Any here
        """Stands for the operation that made a recorded tensor."""

        @staticmethod
        def forward(ctx: Any, source: Any) -> Any:
            return make()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient

    with torch.enable_grad():
        return Recorded.apply(leaf)
