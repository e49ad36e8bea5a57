"""Recorded tensors put together again from specs and bytes; `tensors` takes them apart.

Storages are mapped from the file where they can be: nothing is copied, and memory outside the recorded windows is
never touched.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from typing import Any

from replay.errors import MissingError
from replay.recording import StorageSpec, TensorSpec
from replay.torch_adapter import features, kinds, synthesis


def _real(device: str) -> None:
    """No tensor is fake."""


class TensorBuilder:
    """Builds recorded tensors. Two specs with one storage share memory again; each key is built once.

    `blob(entry)` gives the window's bytes, writable and private to this process. `device(name)` tells where a
    device of the recording goes. `fake(device)` gives what makes a fake tensor there over one without memory; None
    where real ones are wanted.
    """

    def __init__(
        self,
        tensors: Mapping[str, TensorSpec],
        storages: Mapping[str, StorageSpec],
        blob: Callable[[str], memoryview],
        device: Callable[[str], str] = str,
        fake: Callable[[str], Callable[[Any], Any] | None] = _real,
    ) -> None:
        self._torch = features.module("torch")
        self._specs, self._storage_specs = tensors, storages
        self._blob, self._device, self._fake = blob, device, fake
        self._built: dict[str, Any] = {}
        self._storages: dict[str, tuple[Any, Callable[[Any], Any] | None]] = {}

    def get(self, key: str) -> Any:
        """The tensor of a key; the same object each time."""
        if key not in self._built:
            spec = self._specs.get(key)
            if spec is None:
                raise MissingError(
                    f"the bundle's values refer to the tensor {key!r}, which its manifest lacks"
                )
            view = self._view(spec)
            self._built[key] = self._build(spec) if view is None else view
            if spec.grad is not None:
                self._built[key].grad = self.get(spec.grad)
        return self._built[key]

    def get_storage(self, key: str) -> Any:
        """The bare storage that was recorded under a tensor's key."""
        return self.get(key).untyped_storage()

    def device(self, name: str) -> str:
        """Where a device of the recording is found here."""
        return self._device(name)

    def _view(self, spec: TensorSpec) -> Any:
        """A view of its base, if it was one; None where that would be another tensor than the recorded one.

        Dynamo can tell: it makes its fake of a view by way of the base's, which decides on names in error messages.
        """
        if spec.base is None or spec.kind != "tensor" or spec.inference:
            return None
        torch, base = self._torch, self.get(spec.base)
        if str(base.dtype).removeprefix("torch.") != spec.dtype or base.is_conj() or base.is_neg():
            return None
        with torch.inference_mode(False), torch.set_grad_enabled(spec.requires_grad and not spec.is_leaf):
            tensor = base.as_strided(spec.shape, spec.stride, spec.offset)
            tensor = _with_bits(torch, tensor, conj=spec.conj, neg=spec.neg)
        if spec.requires_grad and spec.is_leaf and tensor.is_leaf:
            tensor.requires_grad_()
        same = (tensor.requires_grad, tensor.is_leaf) == (spec.requires_grad, spec.is_leaf)
        return tensor if same else None

    def _build(self, spec: TensorSpec) -> Any:
        torch = self._torch
        with torch.inference_mode(spec.inference), torch.no_grad():
            tensor = self._dense(spec)
            if spec.kind == "parameter":
                return torch.nn.Parameter(tensor, requires_grad=spec.requires_grad)
            if not spec.requires_grad:
                return tensor
            leaf = tensor.requires_grad_()
        return leaf if spec.is_leaf else kinds.computed(torch, leaf, lambda: self._dense(spec))

    def _dense(self, spec: TensorSpec) -> Any:
        torch = self._torch
        dtype = features.require(torch, spec.dtype)
        if spec.storage is None:
            return torch.empty_strided(spec.shape, spec.stride, dtype=dtype, device=spec.device)
        storage, fake = self._storage(spec.storage)
        bare = torch.empty(0, dtype=dtype, device=storage.device)
        tensor = bare.set_(storage, spec.offset, spec.shape, spec.stride)
        tensor = tensor if fake is None else fake(tensor)
        return _with_bits(torch, tensor, conj=spec.conj, neg=spec.neg)

    def _storage(self, key: str) -> tuple[Any, Callable[[Any], Any] | None]:
        """The memory, and what makes a fake tensor over it where it has none."""
        if key not in self._storages:
            spec = self._storage_specs[key]
            device = self._device(spec.device)
            fake = self._fake(device)
            if fake is None:
                flat = self._bytes(key)
                flat = flat if device == "cpu" else flat.to(device)
            else:
                flat = self._torch.empty(spec.nbytes, dtype=self._torch.uint8, device="meta")
            self._storages[key] = (flat.untyped_storage(), fake)
        return self._storages[key]

    def _bytes(self, key: str) -> Any:
        """The whole storage as a flat uint8 tensor on the CPU; memory outside the window is never touched."""
        torch, spec = self._torch, self._storage_specs[key]
        if spec.nbytes == 0:
            return torch.empty(0, dtype=torch.uint8)
        if spec.entry is not None and spec.start == 0 and spec.length == spec.nbytes:
            return torch.frombuffer(self._blob(spec.entry), dtype=torch.uint8)
        whole = torch.frombuffer(mmap.mmap(-1, spec.nbytes), dtype=torch.uint8)
        window = whole[spec.start : spec.start + spec.length]
        if spec.length == 0:
            return whole
        if spec.entry is None:
            synthesis.fill(window, spec)
        else:
            window.copy_(torch.frombuffer(self._blob(spec.entry), dtype=torch.uint8))
        return whole


def _with_bits(torch: Any, tensor: Any, *, conj: bool, neg: bool) -> Any:
    """The same memory, read as conjugated or negated."""
    if conj:
        tensor = torch.conj(tensor)
    return features.require(torch, "_neg_view")(tensor) if neg else tensor
