"""Tensors of a class of their own: torch's (fake, jagged, distributed) and the user's. Parts, and made of parts.

No code of a user's class runs here: what `__init__` did is among the attributes, which travel by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from replay.errors import MissingError
from replay.torch_adapter import features
from replay.torch_adapter.traits import Device, Kind, Taken, dense_traits, layout, shaped


def is_modes_type(cls: type) -> bool:
    """Whether a class is that of fake tensors' mode."""
    return cls.__module__ == "torch._subclasses.fake_tensor" and cls.__name__ == "FakeTensorMode"


def mode_options(mode: Any) -> dict[str, bool]:
    """What a mode of fake tensors was made with, as far as it decides anything."""
    return {
        "allow_non_fake_inputs": bool(getattr(mode, "allow_non_fake_inputs", False)),
        "symbolic": getattr(mode, "shape_env", None) is not None,
    }


def make_mode(options: Mapping[str, bool]) -> Any:
    """A mode of fake tensors; a symbolic one has a new, empty environment of shapes."""
    fakes = features.module("torch._subclasses.fake_tensor")
    shapes = features.module("torch.fx.experimental.symbolic_shapes")
    return features.require(fakes, "FakeTensorMode")(
        allow_non_fake_inputs=options["allow_non_fake_inputs"],
        shape_env=features.require(shapes, "ShapeEnv")() if options["symbolic"] else None,
    )


def _is_fake(torch: Any, tensor: Any) -> bool:
    return bool(type(tensor).__module__ == "torch._subclasses.fake_tensor")


def _fake_parts(torch: Any, tensor: Any) -> Taken:
    numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    if not all(type(one) is int for one in numbers):
        raise MissingError("a fake tensor whose sizes are symbols of an environment that was in use")
    kept = getattr(tensor, "constant", None)
    return {"mode": tensor.fake_mode, "constant": kept}, dense_traits(tensor)


def _make_fake(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    with parts["mode"]:
        dtype = features.require(torch, traits["dtype"])
        made = torch.empty_strided(
            traits["shape"], traits["stride"], dtype=dtype, device=traits["device"]
        ).requires_grad_(traits["requires_grad"])
    if parts["constant"] is not None:
        made.constant = parts["constant"]
    return made


def _is_jagged(torch: Any, tensor: Any) -> bool:
    return bool(type(tensor).__module__ == "torch.nested._internal.nested_tensor")


def _jagged_parts(torch: Any, tensor: Any) -> Taken:
    cache = dict(tensor._metadata_cache)
    parts = {"values": tensor._values, "offsets": tensor._offsets, "lengths": tensor._lengths, **cache}
    return parts, {"ragged": int(tensor._ragged_idx), "view": bool(tensor._is_view())}


def _make_jagged(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    """A view of its values if it was one: Dynamo names the symbols of its sizes after what it is a view of."""
    nested = features.module("torch.nested._internal.nested_tensor")
    cache = {name: parts[name] for name in ("min_seqlen", "max_seqlen") if parts.get(name) is not None}
    if traits["view"] and not traits["requires_grad"]:
        return features.require(torch, "_nested_view_from_jagged")(
            parts["values"].detach(),
            parts["offsets"],
            features.require(nested, "_nt_view_dummy")(),
            parts["lengths"],
            traits["ragged"],
            cache.get("min_seqlen"),
            cache.get("max_seqlen"),
        )
    return features.require(nested, "NestedTensor")(
        parts["values"],
        parts["offsets"],
        lengths=parts["lengths"],
        requires_grad=traits["requires_grad"],
        _ragged_idx=traits["ragged"],
        _metadata_cache=cache,
    )


def _is_distributed(torch: Any, tensor: Any) -> bool:
    return bool(
        type(tensor).__name__ == "DTensor" and type(tensor).__module__.startswith("torch.distributed")
    )


def _distributed_parts(torch: Any, tensor: Any) -> Taken:
    return {"local": tensor._local_tensor, "spec": tensor._spec}, {}


def _make_distributed(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    local = parts["local"].detach() if traits["requires_grad"] else parts["local"]
    return cls(local, parts["spec"], requires_grad=traits["requires_grad"])


def _is_wrapper(torch: Any, tensor: Any) -> bool:
    """Whether it has no memory of its own, as what `_make_wrapper_subclass` makes."""
    if not dispatches(torch, type(tensor)):
        return False
    try:
        storage = tensor.untyped_storage()
        return bool(storage.data_ptr() == 0) or str(storage.device) != str(tensor.device)
    except (RuntimeError, NotImplementedError):
        return True


def _wrapper_parts(torch: Any, tensor: Any) -> Taken:
    return {}, {**dense_traits(tensor), "layout": layout(tensor), "asked": _asked(tensor)}


def _make_wrapper(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    asked = traits["asked"]
    policy = next((name for name in ("sizes", "strides") if name in asked), None)
    return torch.Tensor._make_wrapper_subclass(
        cls,
        traits["shape"],
        strides=traits["stride"],
        storage_offset=traits["offset"],
        dtype=features.require(torch, traits["dtype"]),
        layout=features.require(torch, traits["layout"]),
        device=torch.device(device(traits["device"])),
        requires_grad=traits["requires_grad"],
        dispatch_sizes_strides_policy=policy,
        dispatch_device="device" in asked,
    )


def _is_class(torch: Any, tensor: Any) -> bool:
    own = type(tensor) not in (torch.Tensor, torch.nn.Parameter)
    return own and layout(tensor) == "strided" and not tensor.is_quantized and not tensor.is_nested


def _class_parts(torch: Any, tensor: Any) -> Taken:
    """The same memory as a tensor of no class."""
    plain = torch.Tensor._make_subclass(torch.Tensor, tensor, False)
    return {"plain": plain}, {}


def _make_class(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    return torch.Tensor._make_subclass(cls, parts["plain"], traits["requires_grad"])


@contextmanager
def _asking(noted: list[str]) -> Iterator[None]:
    modes = features.module("torch.utils._python_dispatch")

    class Asking(features.require(modes, "TorchDispatchMode")):  # type: ignore[misc]
        """Notes that a question about a tensor's metadata went to its class."""

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            noted.append(str(function))
            raise NotImplementedError

    with Asking():
        yield


def _asked(tensor: Any) -> list[str]:
    """Which of "sizes", "strides" and "device" torch asks the subclass for, instead of knowing them."""
    questions = {"sizes": tensor.size, "strides": tensor.stride, "device": lambda: tensor.device}
    found = []
    for name, question in questions.items():
        noted: list[str] = []
        try:
            with _asking(noted):
                question()
        except Exception:  # noqa: BLE001, S110 - the answer is what was noted
            pass
        if noted:
            found.append(name)
    return found


def dispatches(torch: Any, cls: Any) -> bool:
    """Whether a class has a `__torch_dispatch__` of its own."""
    return cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


@contextmanager
def dispatching(torch: Any, cls: Any, *, wanted: bool) -> Iterator[None]:
    """Torch looks for `__torch_dispatch__` when an object is made; a class that is still empty has none."""
    if not wanted or dispatches(torch, cls):
        yield
        return
    type.__setattr__(cls, "__torch_dispatch__", classmethod(_never))
    try:
        yield
    finally:
        type.__delattr__(cls, "__torch_dispatch__")


def _never(cls: Any, *rest: Any) -> Any:
    return NotImplemented


def _say_fake(tensor: Any) -> str:
    return f"fake {shaped(tensor)}"


def _say_jagged(tensor: Any) -> str:
    return f"nested (jagged) {shaped(tensor)}"


def _say_distributed(tensor: Any) -> str:
    placements = ", ".join(map(str, tensor._spec.placements))
    return f"DTensor {shaped(tensor)} ({placements}) of {shaped(tensor._local_tensor)}"


def _say_class(tensor: Any) -> str:
    return f"{type(tensor).__qualname__} {shaped(tensor)}"


KINDS = (
    Kind("fake", _is_fake, _fake_parts, _make_fake, _say_fake),
    Kind("nested_jagged", _is_jagged, _jagged_parts, _make_jagged, _say_jagged),
    Kind("distributed", _is_distributed, _distributed_parts, _make_distributed, _say_distributed),
    Kind("wrapper", _is_wrapper, _wrapper_parts, _make_wrapper, _say_class),
    Kind("class", _is_class, _class_parts, _make_class, _say_class),
)
"""In the order in which they are asked for."""
