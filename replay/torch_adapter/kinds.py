"""Tensors that are not ordinary, taken apart into ordinary ones and put together again.

Ordinary is what `tensors.TensorCollector.add` takes: dense, with memory of its own, of no class of anybody's. The
rest has a kind here, which is a word of the bundle format: what it is made of. No code of a user's subclass
runs here. How they travel is decided in `replay.shipping.tensors`.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from replay.errors import MissingError
from replay.torch_adapter import features
from replay.torch_adapter.undisturbed import undisturbed

Device = Callable[[str], str]
"""Where a device of the recording is found here."""

Parts = tuple[str, dict[str, Any], dict[str, Any]]
"""A tensor's kind; the tensors and objects that it is made of; plain data."""

COMPRESSED = {
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}
"""Layouts, with the methods that give the compressed indices and the plain ones."""

LIBRARYS_OWN = frozenset({"fake", "nested_jagged", "distributed"})
"""Kinds of torch's own subclasses, whose private attributes are set when they are made."""

STRUCTURE = {
    "sparse_coo": ("indices",),
    "sparse_compressed": ("compressed", "plain"),
    "nested_jagged": ("offsets", "lengths", "min_seqlen", "max_seqlen"),
    "nested_strided": ("_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets"),
}

CHANNELS = ("per_channel_affine", "per_channel_affine_float_qparams")


def take_apart(tensor: Any) -> Parts:
    """The parts of a tensor that is not ordinary. Raises MissingError for one that cannot travel."""
    torch = features.module("torch")
    if _is_transformed(torch, tensor):
        raise MissingError("it belongs to a transform of torch.func that was running, and means nothing outside")
    for kind, is_kind, parts in KINDS:
        with undisturbed():
            if is_kind(torch, tensor):
                made, traits = parts(torch, tensor)
                traits = {
                    "requires_grad": bool(tensor.requires_grad),
                    "is_leaf": bool(tensor.is_leaf),
                    "parameter": type(tensor) is torch.nn.Parameter,
                    "dispatches": _dispatches(torch, type(tensor)),
                    **traits,
                }
                return kind, made, traits
    raise MissingError(f"replay knows no tensors like this one ({type(tensor).__qualname__}, {tensor.layout})")


def structure(kind: str, parts: Mapping[str, Any]) -> list[Any]:
    """The parts whose values say where the others belong: with made-up ones the tensor would be no valid one."""
    return [parts[name] for name in STRUCTURE.get(kind, ()) if parts.get(name) is not None]


def put_together(
    kind: str, cls: Any, parts: Mapping[str, Any], traits: Mapping[str, Any], device: Device
) -> Any:
    """The tensor again, without the attributes that Python code gave it."""
    torch = features.module("torch")
    build = BUILDERS.get(kind)
    if build is None:
        raise MissingError(f"this version of replay knows no tensors of the kind {kind!r}")

    def make(requires_grad: bool) -> Any:
        """One object; it may be wanted twice, once as the leaf and once as what is computed from it."""
        made = build(torch, cls, parts, {**traits, "requires_grad": requires_grad}, device)
        if type(made) is not cls and not traits["parameter"]:
            made = torch.Tensor._make_subclass(cls, made, requires_grad)
        return made

    wants = bool(traits["requires_grad"])
    with undisturbed(), _dispatching(torch, cls, traits["dispatches"]):
        if traits["parameter"]:
            return torch.nn.Parameter(make(False), requires_grad=wants)
        made = make(wants and traits["is_leaf"])
        if wants and traits["is_leaf"] and not made.requires_grad:
            made.requires_grad_()
        if not wants or traits["is_leaf"]:
            return made
        leaf = make(True)
        leaf = leaf if leaf.requires_grad else leaf.requires_grad_()
        with torch.enable_grad():
            return _computed(torch, leaf, lambda: make(False))


def summary(tensor: Any) -> str | None:
    """For people: `sparse_coo float32[3, 4] nnz=2`; None for an ordinary tensor, or a class of one."""
    torch = features.module("torch")
    if _is_transformed(torch, tensor):
        return f"{shaped(tensor)} in a transform of torch.func"
    with undisturbed():
        if _is_fake(torch, tensor):
            return f"fake {shaped(tensor)}"
        if _is_jagged(torch, tensor):
            return f"nested (jagged) {shaped(tensor)}"
        if tensor.is_nested:
            return f"nested (strided) {_dtype(tensor)}, {tensor.size(0)} tensors"
        if _is_distributed(torch, tensor):
            local, spec = tensor._local_tensor, tensor._spec
            placements = ", ".join(map(str, spec.placements))
            return f"DTensor {shaped(tensor)} ({placements}) of {shaped(local)}"
        if tensor.is_quantized:
            return f"quantized ({str(tensor.qscheme()).removeprefix('torch.')}) {shaped(tensor)}"
        if _layout(tensor) != "strided":
            return f"{_layout(tensor)} {shaped(tensor)} nnz={int(tensor._nnz())}"
        if type(tensor) in (torch.Tensor, torch.nn.Parameter):
            return None
        return f"{type(tensor).__qualname__} {shaped(tensor)}"


def is_ordinary(tensor: Any) -> bool:
    """Whether a tensor is dense, of torch's own classes and outside every transform."""
    torch = features.module("torch")
    return bool(
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_nested
        and not _is_transformed(torch, tensor)
    )


def inner_tensors(tensor: Any) -> Iterator[Any]:
    """The tensors that one which is not ordinary is made of; nothing where it cannot be told."""
    torch = features.module("torch")
    try:
        kind, parts, _ = take_apart(tensor)
    except Exception:  # noqa: BLE001 - a subclass's attributes may raise anything; shipping says so
        return
    found = [*parts.values(), *(each for one in python_state(kind, tensor) for each in one.values())]
    for part in found:
        if isinstance(part, torch.Tensor):
            yield from ((part,) if is_ordinary(part) else inner_tensors(part))


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

    return {
        name: value
        for name, value in state.items()
        if is_kept(name) and type(value).__name__ != "PyCapsule"
    }


def gradient_of(tensor: Any) -> Any:
    """The `.grad` of a leaf, else None."""
    with undisturbed():
        return tensor.grad if tensor.is_leaf and tensor.requires_grad else None


def hooks_of(tensor: Any) -> dict[str, list[Any]]:
    """The functions that `register_hook` and `register_post_accumulate_grad_hook` were given, in order."""
    found = {
        "backward": tensor._backward_hooks,
        "accumulated": getattr(tensor, "_post_accumulate_grad_hooks", None),
    }
    return {name: list(hooks.values()) for name, hooks in found.items() if hooks}


def add_hooks(tensor: Any, hooks: Mapping[str, list[Any]]) -> None:
    """Register them again."""
    for hook in hooks.get("backward", ()):
        tensor.register_hook(hook)
    for hook in hooks.get("accumulated", ()):
        tensor.register_post_accumulate_grad_hook(hook)


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


# Which tensors are of a kind, what they are made of, and how they are made again.


def _is_transformed(torch: Any, tensor: Any) -> bool:
    functorch = features.require(features.require(torch, "_C"), "_functorch")
    return bool(features.require(functorch, "is_functorch_wrapped_tensor")(tensor))


def _is_fake(torch: Any, tensor: Any) -> bool:
    return bool(type(tensor).__module__ == "torch._subclasses.fake_tensor")


def _fake_parts(torch: Any, tensor: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    if not all(type(one) is int for one in numbers):
        raise MissingError("a fake tensor whose sizes are symbols of an environment that was in use")
    kept = getattr(tensor, "constant", None)
    return {"mode": tensor.fake_mode, "constant": kept}, _dense_traits(tensor)


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


def _jagged_parts(torch: Any, tensor: Any) -> tuple[dict[str, Any], dict[str, Any]]:
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
    return bool(type(tensor).__name__ == "DTensor" and type(tensor).__module__.startswith("torch.distributed"))


def _distributed_parts(torch: Any, tensor: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"local": tensor._local_tensor, "spec": tensor._spec}, {}


def _make_distributed(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    local = parts["local"].detach() if traits["requires_grad"] else parts["local"]
    return cls(local, parts["spec"], requires_grad=traits["requires_grad"])


def _is_wrapper(torch: Any, tensor: Any) -> bool:
    """Whether it has no memory of its own, as what `_make_wrapper_subclass` makes."""
    if not _dispatches(torch, type(tensor)):
        return False
    try:
        storage = tensor.untyped_storage()
        return bool(storage.data_ptr() == 0) or str(storage.device) != str(tensor.device)
    except (RuntimeError, NotImplementedError):
        return True


def _wrapper_parts(torch: Any, tensor: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return {}, {**_dense_traits(tensor), "layout": _layout(tensor), "asked": _asked(tensor)}


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


def _is_quantized(torch: Any, tensor: Any) -> bool:
    return bool(tensor.is_quantized)


def _quantized_parts(torch: Any, tensor: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    scheme = str(tensor.qscheme()).removeprefix("torch.")
    traits = {**_dense_traits(tensor), "scheme": scheme}
    kind = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}.get(tensor.dtype)
    if kind is None:
        raise MissingError(f"a quantized tensor of {traits['dtype']}")
    bare = torch.empty(0, dtype=kind, device=tensor.device)
    numbers = bare.set_(tensor.untyped_storage(), traits["offset"], traits["shape"], traits["stride"])
    if scheme not in CHANNELS:
        return {"numbers": numbers}, {**traits, "scale": tensor.q_scale(), "zero": tensor.q_zero_point()}
    parts = {
        "numbers": numbers,
        "scales": tensor.q_per_channel_scales(),
        "zeros": tensor.q_per_channel_zero_points(),
    }
    return parts, {**traits, "axis": int(tensor.q_per_channel_axis())}


def _make_quantized(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    numbers, shape = parts["numbers"], traits["shape"]
    options = {"dtype": features.require(torch, traits["dtype"]), "device": numbers.device}
    if traits["scheme"] in CHANNELS:
        made = torch._empty_per_channel_affine_quantized(
            shape, scales=parts["scales"], zero_points=parts["zeros"], axis=traits["axis"], **options
        )
    else:
        made = torch._empty_affine_quantized(
            shape, scale=traits["scale"], zero_point=traits["zero"], **options
        )
    return made.set_(numbers.untyped_storage(), traits["offset"], shape, traits["stride"])


def _is_nested(torch: Any, tensor: Any) -> bool:
    return bool(tensor.is_nested)


def _nested_parts(torch: Any, tensor: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    names = ("_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets")
    parts = {name: features.require(tensor, name)() for name in names}
    return {"buffer": tensor.values(), **parts}, {}


def _make_nested(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    return features.require(torch, "_nested_view_from_buffer")(*parts.values()).detach()


def _is_coo(torch: Any, tensor: Any) -> bool:
    return _layout(tensor) == "sparse_coo"


def _coo_parts(torch: Any, tensor: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    parts = {"indices": tensor._indices(), "values": tensor._values()}
    return parts, {"shape": tuple(tensor.shape), "coalesced": bool(tensor.is_coalesced())}


def _make_coo(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    made = torch.sparse_coo_tensor(
        parts["indices"], parts["values"], traits["shape"], check_invariants=False
    )
    return made._coalesced_(traits["coalesced"])


def _is_compressed(torch: Any, tensor: Any) -> bool:
    return _layout(tensor) in COMPRESSED


def _compressed_parts(torch: Any, tensor: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    compressed, plain = COMPRESSED[_layout(tensor)]
    parts = {"compressed": getattr(tensor, compressed)(), "plain": getattr(tensor, plain)()}
    return {**parts, "values": tensor.values()}, {"shape": tuple(tensor.shape), "layout": _layout(tensor)}


def _make_compressed(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    layout = features.require(torch, traits["layout"])
    return torch.sparse_compressed_tensor(
        *parts.values(), traits["shape"], layout=layout, check_invariants=False
    )


def _is_class(torch: Any, tensor: Any) -> bool:
    return _layout(tensor) == "strided" and type(tensor) not in (torch.Tensor, torch.nn.Parameter)


def _class_parts(torch: Any, tensor: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same memory as a tensor of no class."""
    plain = torch.Tensor._make_subclass(torch.Tensor, tensor, False)
    return {"plain": plain}, {}


def _make_class(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    return torch.Tensor._make_subclass(cls, parts["plain"], traits["requires_grad"])


KINDS: tuple[tuple[str, Callable[[Any, Any], bool], Callable[[Any, Any], Any]], ...] = (
    ("fake", _is_fake, _fake_parts),
    ("nested_jagged", _is_jagged, _jagged_parts),
    ("distributed", _is_distributed, _distributed_parts),
    ("wrapper", _is_wrapper, _wrapper_parts),
    ("quantized", _is_quantized, _quantized_parts),
    ("nested_strided", _is_nested, _nested_parts),
    ("sparse_coo", _is_coo, _coo_parts),
    ("sparse_compressed", _is_compressed, _compressed_parts),
    ("class", _is_class, _class_parts),
)
"""In the order in which they are asked for."""

BUILDERS: dict[str, Callable[[Any, Any, Any, Any, Device], Any]] = {
    "fake": _make_fake,
    "nested_jagged": _make_jagged,
    "distributed": _make_distributed,
    "wrapper": _make_wrapper,
    "quantized": _make_quantized,
    "nested_strided": _make_nested,
    "sparse_coo": _make_coo,
    "sparse_compressed": _make_compressed,
    "class": _make_class,
}


def _dispatches(torch: Any, cls: Any) -> bool:
    return cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


@contextmanager
def _dispatching(torch: Any, cls: Any, dispatches: bool) -> Iterator[None]:
    """Torch looks for `__torch_dispatch__` when an object is made; a class that is still empty has none."""
    if not dispatches or _dispatches(torch, cls):
        yield
        return
    type.__setattr__(cls, "__torch_dispatch__", classmethod(_never))
    try:
        yield
    finally:
        type.__delattr__(cls, "__torch_dispatch__")


def _never(cls: Any, *rest: Any) -> Any:
    return NotImplemented


def _computed(torch: Any, leaf: Any, make: Callable[[], Any]) -> Any:
    """A tensor that autograd knows to be computed from the leaf."""

    class Recorded(torch.autograd.Function):  # type: ignore[misc]  # torch is Any here
        """Stands for the operation that made a recorded tensor."""

        @staticmethod
        def forward(ctx: Any, source: Any) -> Any:
            return make()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient

    return Recorded.apply(leaf)


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
        except Exception:  # noqa: BLE001 - the answer is what was noted
            pass
        if noted:
            found.append(name)
    return found


def _dense_traits(tensor: Any) -> dict[str, Any]:
    return {
        "shape": tuple(int(size) for size in tensor.shape),
        "stride": tuple(int(step) for step in tensor.stride()),
        "offset": int(tensor.storage_offset()),
        "dtype": _dtype(tensor),
        "device": str(tensor.device),
    }


def _layout(tensor: Any) -> str:
    return str(tensor.layout).removeprefix("torch.")


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def shaped(tensor: Any) -> str:
    """`float32[2, 3]`."""
    return f"{_dtype(tensor)}[{', '.join(map(str, tensor.shape))}]"
