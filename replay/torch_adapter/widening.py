"""A frame in double precision: tensors of a bundle built as float64, and code that asks for less given float64.

What torch's accuracy tools do to a graph (`torch._dynamo.debug_utils.cast_to_fp64`), for code that is no graph. Random
numbers may come out otherwise; whoever compares has to look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from replay.recording import TensorSpec
from replay.torch_adapter import features, synthesis
from replay.torch_adapter.building import TensorBuilder


class WideBuilder(TensorBuilder):
    """Builds what a TensorBuilder builds, floating-point numbers in float64 and complex ones in complex128.

    Memory that is read as several types stays as it was recorded.
    """

    def __init__(self, tensors: Mapping[str, TensorSpec], *rest: Any) -> None:
        super().__init__(tensors, *rest)
        self._narrow = _narrow(tensors)
        self._specs = {key: self._widened(spec) for key, spec in tensors.items()}

    def _widened(self, spec: TensorSpec) -> TensorSpec:
        if spec.storage is not None and spec.storage not in self._narrow:
            return spec
        return replace(spec, dtype=wide(spec.dtype))

    def _bytes(self, key: str) -> Any:
        flat = super()._bytes(key)
        if key not in self._narrow:
            return flat
        torch, kind = self._torch, features.require(self._torch, self._narrow[key])
        whole = flat[: flat.numel() // kind.itemsize * kind.itemsize]
        with torch.no_grad(), torch.inference_mode(False):
            return whole.view(kind).to(features.require(torch, wide(self._narrow[key]))).view(torch.uint8)


def wide(dtype: str) -> str:
    """The widest type of a dtype's sort: itself for what is no floating point."""
    if not synthesis.is_floating(dtype):
        return dtype
    return "complex128" if dtype.startswith("complex") else "float64"


def _narrow(tensors: Mapping[str, TensorSpec]) -> dict[str, str]:
    """The storages that are read as one floating-point type alone, which is not the widest, and that type."""
    kinds: dict[str, set[str]] = {}
    for spec in tensors.values():
        if spec.storage is not None:
            kinds.setdefault(spec.storage, set()).add(spec.dtype)
    alone = {key: next(iter(found)) for key, found in kinds.items() if len(found) == 1}
    return {key: dtype for key, dtype in alone.items() if wide(dtype) != dtype}


@contextmanager
def entered() -> Iterator[None]:
    """Inside, what asks for a lower precision is given float64, and autocast does nothing."""
    torch = features.module("torch")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False), _mode(torch):
            yield
    finally:
        torch.set_default_dtype(before)


def _mode(torch: Any) -> Any:
    """The mode that changes what operators are asked for."""
    base: Any = features.require(features.module("torch.utils._python_dispatch"), "TorchDispatchMode")
    pytree = features.module("torch.utils._pytree")

    def widened(value: Any) -> Any:
        if type(value) is torch.dtype and (value.is_floating_point or value.is_complex):
            return torch.complex128 if value.is_complex else torch.float64
        return value

    class Wide(base):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            args, kwargs = pytree.tree_map(widened, (tuple(args), dict(kwargs or {})))
            return function(*args, **kwargs)

    return Wide()
