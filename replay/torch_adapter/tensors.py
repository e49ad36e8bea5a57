"""Tensors and storages taken apart into specs and bytes; `building` is the way back.

`TensorCollector` is what the pickler hands tensors to: it notes shapes, strides and who shares which storage, and
afterwards decides, by policy, which storages travel with their bytes and which as synthetic values. Nothing is
copied before the bytes stream to the file.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from replay.recording import StorageSpec, TensorSpec
from replay.torch_adapter import features, kinds, sketches, synthesis

Policy = Literal["auto", "full", "metadata"]

SMALL = 64 * 1024
"""auto: a floating-point window up to this many bytes keeps its values ..."""
FLOAT_BUDGET = 512 * 1024
"""... while all of them together stay under this many."""
RUN_BUDGET = 256 * 1024 * 1024
"""... or, after a failure at run time, under this many, whatever their size; the smallest first."""
INTEGER_BUDGET = 64 * 1024 * 1024
"""auto: integers and booleans keep their values up to this many bytes in all, the smallest first."""
CHUNK = 8 * 1024 * 1024
"""Bytes copied at once from an accelerator."""


@dataclass(slots=True)
class _Storage:
    """A storage that is being recorded. `start` and `stop` are bytes."""

    handle: Any
    device: str
    start: int
    stop: int
    dtypes: dict[str, int] = field(default_factory=dict)  # dtype -> bytes viewed with it

    def widen(self, start: int, stop: int) -> None:
        if self.start == self.stop:
            self.start, self.stop = start, stop
        elif start != stop:
            self.start, self.stop = min(self.start, start), max(self.stop, stop)


class TensorCollector:
    """Takes tensors in, keeps them alive, and gives specs and byte windows out. Used for one bundle."""

    def __init__(self) -> None:
        self._torch = features.module("torch")
        self._specs: dict[str, TensorSpec] = {}
        self._keys: dict[int, str] = {}
        self._bases: set[str] = set()  # keys of tensors that only views of theirs are recorded of
        self._pinned: set[str] = set()  # keys of storages that keep their bytes in any case
        self._alive: list[Any] = []
        self._storages: dict[int, tuple[str, _Storage]] = {}
        self._declared: dict[str, StorageSpec] = {}

    def add(self, tensor: Any) -> str | None:
        """The key of an ordinary dense tensor or Parameter; None for what is neither (subclasses, sparse, ...)."""
        known = self._keys.get(id(tensor))
        if known is not None and known not in self._bases:
            return known
        if not kinds.is_ordinary(tensor):
            return None
        key = self._note(tensor, self._spec(tensor))
        self._bases.discard(key)
        if tensor.is_leaf and tensor.grad is not None:
            self._specs[key] = replace(self._specs[key], grad=self.add(tensor.grad))
        base = tensor._base if tensor._is_view() else None
        if base is not None and kinds.is_ordinary(base):
            self._specs[key] = replace(self._specs[key], base=self._add_base(base))
        return key

    def _add_base(self, base: Any) -> str:
        """The key of what a recorded tensor is a view of. None of its bytes are wanted for that."""
        known = self._keys.get(id(base))
        if known is not None:
            return known
        key = self._note(base, self._spec(base, wanted=False))
        self._bases.add(key)
        return key

    def _note(self, tensor: Any, spec: TensorSpec) -> str:
        key = self._keys.setdefault(id(tensor), f"t{len(self._specs)}")
        self._alive.append(tensor)
        self._specs[key] = spec
        return key

    def add_storage(self, storage: Any) -> str:
        """The key of a bare UntypedStorage, all of whose bytes are wanted."""
        view = self._torch.empty(0, dtype=self._torch.uint8, device=storage.device).set_(storage)
        key = self.add(view)
        assert key is not None  # a dense uint8 tensor is ordinary
        return key

    def pin(self, tensor: Any) -> None:
        """Keep the values of an added tensor whatever the policy: without them another tensor would be no valid one."""
        key = self.key_of(tensor)
        if key is not None and self._specs[key].storage is not None:
            self._pinned.add(str(self._specs[key].storage))

    def declare(self, sketch: sketches.Tensor) -> Any:
        """A tensor on the device "meta" that stands for one of an earlier call: it is recorded by metadata."""
        key = f"t{len(self._specs)}"
        spec = self._spec(sketch.meta)
        stop = _extent(sketch.meta)[1]
        storage = f"d{len(self._declared)}"
        self._declared[storage] = synthesis.ordinary(
            StorageSpec(nbytes=stop, start=0, length=stop, device=sketch.device, entry=None, dtype=spec.dtype)
        )
        kind: Literal["tensor", "parameter"] = "parameter" if sketch.parameter else "tensor"
        self._specs[key] = replace(spec, device=sketch.device, storage=storage, kind=kind)
        stand_in = sketch.meta.detach()
        vars(stand_in).update(sketch.marks)
        self._keys[id(stand_in)] = key
        self._alive.append(stand_in)
        return stand_in

    def key_of(self, tensor: Any) -> str | None:
        """The key of a tensor that was added, or of one that cannot be told from it, without adding it."""
        known = self._keys.get(id(tensor))
        if known is not None or not kinds.is_ordinary(tensor) or tensor.device.type == "meta":
            return known
        identity = int(features.require(tensor.untyped_storage(), "_cdata"))
        if identity not in self._storages:
            return None
        storage = self._storages[identity][0]
        place = (storage, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
        for key, spec in self._specs.items():
            if (spec.storage, spec.offset, spec.shape, spec.stride) == place and f"torch.{spec.dtype}" == str(
                tensor.dtype
            ):
                return key
        return None

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        """Every tensor, by key."""
        return dict(self._specs)

    def plan(
        self, policy: Policy, *, values_matter: bool = False, budget: int | None = None
    ) -> dict[str, StorageSpec]:
        """Which storages keep their bytes (`entry` is then the blob's key), and which become synthetic.

        `values_matter`: the failure came while code ran; auto then keeps floating-point values up to RUN_BUDGET.
        `budget`: auto keeps values of every type up to so many bytes, because the failure was seen to need them.
        """
        real = self.real(policy, values_matter=values_matter, budget=budget)
        plans = dict(self._declared)
        for key, storage in self._storages.values():
            window = self._window(storage)
            spec = StorageSpec(
                nbytes=storage.handle.nbytes(),
                start=storage.start,
                length=storage.stop - storage.start,
                device=storage.device,
                entry=key if key in real else None,
                dtype=max(storage.dtypes, key=lambda name: storage.dtypes[name], default="uint8"),
            )
            plans[key] = spec if key in real else synthesis.describe(spec, window)
        return plans

    def chunks(self, key: str) -> Iterator[memoryview]:
        """The bytes of a storage's window, without a second copy of them in memory."""
        storage = next(one for name, one in self._storages.values() if name == key)
        if storage.device == "cpu":
            if storage.stop > storage.start:
                address = storage.handle.data_ptr() + storage.start
                size = storage.stop - storage.start
                yield memoryview((ctypes.c_char * size).from_address(address)).cast("B")
            return
        window = self._window(storage)
        for at in range(0, window.numel(), CHUNK):
            part = window[at : at + CHUNK].cpu()
            yield memoryview((ctypes.c_char * part.numel()).from_address(part.data_ptr())).cast("B")

    def _spec(self, tensor: Any, *, wanted: bool = True) -> TensorSpec:
        torch = self._torch
        meta = tensor.device.type == "meta"
        return TensorSpec(
            shape=tuple(int(size) for size in tensor.shape),
            stride=tuple(int(step) for step in tensor.stride()),
            offset=int(tensor.storage_offset()),
            dtype=str(tensor.dtype).removeprefix("torch."),
            device=str(tensor.device),
            storage=None if meta else self._storage(tensor, wanted),
            kind=_kind(torch, tensor),
            requires_grad=bool(tensor.requires_grad),
            is_leaf=bool(tensor.is_leaf),
            conj=bool(tensor.is_conj()),
            neg=bool(tensor.is_neg()),
            inference=bool(tensor.is_inference()),
            persistent=bool(getattr(tensor, "persistent", True)),
        )

    def _storage(self, tensor: Any, wanted: bool) -> str:
        handle = tensor.untyped_storage()
        identity = int(features.require(handle, "_cdata"))
        if identity not in self._storages:
            key = f"s{len(self._storages)}"
            self._storages[identity] = (key, _Storage(handle, str(tensor.device), 0, 0))
        key, storage = self._storages[identity]
        if not wanted:
            return key
        start, stop = _extent(tensor)
        storage.widen(start, stop)
        name = str(tensor.dtype).removeprefix("torch.")
        storage.dtypes[name] = storage.dtypes.get(name, 0) + stop - start
        return key

    def _window(self, storage: _Storage) -> Any:
        """A uint8 view of the window."""
        torch = self._torch
        whole = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage.handle)
        return whole[storage.start : storage.stop]

    def real(self, policy: Policy, *, values_matter: bool = False, budget: int | None = None) -> set[str]:
        """The keys of the storages that keep their bytes; see `plan`."""
        if policy == "full":
            return {key for key, _ in self._storages.values()}
        if policy == "metadata":
            return set(self._pinned)
        kept = self._usual(values_matter) if budget is None else self._smallest(budget)
        return kept | self._pinned

    def _usual(self, values_matter: bool) -> set[str]:
        kept: set[str] = set()
        left = {True: RUN_BUDGET if values_matter else FLOAT_BUDGET, False: INTEGER_BUDGET}
        for key, storage in sorted(self._storages.values(), key=lambda pair: pair[1].stop - pair[1].start):
            size = storage.stop - storage.start
            floating = bool(storage.dtypes) and all(synthesis.is_floating(name) for name in storage.dtypes)
            if size <= left[floating] and (size <= SMALL or not floating or values_matter):
                left[floating] -= size
                kept.add(key)
        return kept

    def _smallest(self, budget: int) -> set[str]:
        kept: set[str] = set()
        for key, storage in sorted(self._storages.values(), key=lambda pair: pair[1].stop - pair[1].start):
            budget -= storage.stop - storage.start
            if budget >= 0:
                kept.add(key)
        return kept


def _kind(torch: Any, tensor: Any) -> Literal["tensor", "parameter", "buffer"]:
    if type(tensor) is torch.nn.Parameter:
        return "parameter"
    return "buffer" if getattr(tensor, "_is_buffer", False) else "tensor"


def _extent(tensor: Any) -> tuple[int, int]:
    """First and one-past-last byte of its storage that a tensor reads."""
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    start = int(tensor.storage_offset()) * tensor.itemsize
    return start, start + (int(last) + 1) * int(tensor.itemsize)
