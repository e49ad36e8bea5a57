"""Tensors of layouts other than the dense one: sparse, nested, and quantized numbers. Parts, and made of parts."""

from __future__ import annotations

from typing import Any

from replay.errors import MissingError
from replay.torch_adapter import features
from replay.torch_adapter.traits import Device, Kind, Taken, dense_traits, dtype, layout, shaped

COMPRESSED = {
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}
"""Layouts, with the methods that give the compressed indices and the plain ones."""

CHANNELS = ("per_channel_affine", "per_channel_affine_float_qparams")
"""Schemes of a scale for each channel."""


def _is_quantized(torch: Any, tensor: Any) -> bool:
    return bool(tensor.is_quantized)


def _quantized_parts(torch: Any, tensor: Any) -> Taken:
    scheme = str(tensor.qscheme()).removeprefix("torch.")
    traits = {**dense_traits(tensor), "scheme": scheme}
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


def _nested_parts(torch: Any, tensor: Any) -> Taken:
    names = ("_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets")
    parts = {name: features.require(tensor, name)() for name in names}
    return {"buffer": tensor.values(), **parts}, {}


def _make_nested(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    return features.require(torch, "_nested_view_from_buffer")(*parts.values()).detach()


def _is_coo(torch: Any, tensor: Any) -> bool:
    return layout(tensor) == "sparse_coo"


def _coo_parts(torch: Any, tensor: Any) -> Taken:
    parts = {"indices": tensor._indices(), "values": tensor._values()}
    return parts, {"shape": tuple(tensor.shape), "coalesced": bool(tensor.is_coalesced())}


def _make_coo(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    made = torch.sparse_coo_tensor(parts["indices"], parts["values"], traits["shape"], check_invariants=False)
    return made._coalesced_(traits["coalesced"])


def _is_compressed(torch: Any, tensor: Any) -> bool:
    return layout(tensor) in COMPRESSED


def _compressed_parts(torch: Any, tensor: Any) -> Taken:
    compressed, plain = COMPRESSED[layout(tensor)]
    parts = {"compressed": getattr(tensor, compressed)(), "plain": getattr(tensor, plain)()}
    return {**parts, "values": tensor.values()}, {"shape": tuple(tensor.shape), "layout": layout(tensor)}


def _make_compressed(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    layout = features.require(torch, traits["layout"])
    return torch.sparse_compressed_tensor(
        *parts.values(), traits["shape"], layout=layout, check_invariants=False
    )


def _say_quantized(tensor: Any) -> str:
    return f"quantized ({str(tensor.qscheme()).removeprefix('torch.')}) {shaped(tensor)}"


def _say_nested(tensor: Any) -> str:
    return f"nested (strided) {dtype(tensor)}, {tensor.size(0)} tensors"


def _say_sparse(tensor: Any) -> str:
    return f"{layout(tensor)} {shaped(tensor)} nnz={int(tensor._nnz())}"


KINDS = (
    Kind("quantized", _is_quantized, _quantized_parts, _make_quantized, _say_quantized),
    Kind("nested_strided", _is_nested, _nested_parts, _make_nested, _say_nested),
    Kind("sparse_coo", _is_coo, _coo_parts, _make_coo, _say_sparse),
    Kind("sparse_compressed", _is_compressed, _compressed_parts, _make_compressed, _say_sparse),
)
"""No tensor is of two of them."""
