"""What is plain of a tensor: its sizes and names, as the bundle and people see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Device = Callable[[str], str]
"""Where a device of the recording is found here."""

Taken = tuple[dict[str, Any], dict[str, Any]]
"""The tensors and objects that a tensor is made of; plain data."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Tensors that are made of the same parts. `name` is a word of the bundle format."""

    name: str
    holds: Callable[[Any, Any], bool]  # (torch, tensor)
    parts: Callable[[Any, Any], Taken]  # (torch, tensor)
    make: Callable[[Any, Any, Any, Any, Device], Any]  # (torch, class, parts, traits, device)
    says: Callable[[Any], str]  # a tensor's summary, for people


def dense_traits(tensor: Any) -> dict[str, Any]:
    """What a dense tensor has beside its numbers. Raises TypeError where a size is a symbol."""
    return {
        "shape": tuple(int(size) for size in tensor.shape),
        "stride": tuple(int(step) for step in tensor.stride()),
        "offset": int(tensor.storage_offset()),
        "dtype": dtype(tensor),
        "device": str(tensor.device),
    }


def layout(tensor: Any) -> str:
    """`sparse_coo`."""
    return str(tensor.layout).removeprefix("torch.")


def dtype(tensor: Any) -> str:
    """`float32`."""
    return str(tensor.dtype).removeprefix("torch.")


def shaped(tensor: Any) -> str:
    """`float32[2, 3]`."""
    return f"{dtype(tensor)}[{', '.join(map(str, tensor.shape))}]"
