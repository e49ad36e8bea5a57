"""Synthetic values in place of a storage's bytes: what is kept of the real ones, and how new ones are drawn.

Kept: a seed and the minimum, maximum, mean and standard deviation of a sample. Drawn: values with these
figures, from a generator of our own, so that no other random number changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replay.recording import StorageSpec
from replay.torch_adapter import features

SAMPLE = 65_536
"""At most so many elements are looked at for the statistics."""
BLOCK = 1 << 20
"""So many elements are drawn; a larger storage repeats them."""


def is_floating(dtype: str) -> bool:
    """Whether a dtype's values are drawn from a normal distribution."""
    return dtype.startswith(("float", "bfloat", "complex"))


def describe(spec: StorageSpec, window: Any) -> StorageSpec:
    """The spec with a seed and the statistics of a sample of the window, a flat uint8 tensor."""
    torch = features.module("torch")
    with torch.no_grad():
        values = _typed(torch, window, spec.dtype)
        step = max(1, -(-values.numel() // SAMPLE))
        try:
            sample = values[::step].to("cpu", torch.float64)
        except NotImplementedError:  # packed and quantized types are drawn byte by byte
            return describe(replace(spec, dtype="uint8"), window)
        finite = sample[torch.isfinite(sample)]
    seed = (spec.nbytes * 2_654_435_761 + spec.length) % (1 << 31)
    return replace(spec, entry=None, seed=seed, statistics=_statistics(sample, finite))


def ordinary(spec: StorageSpec) -> StorageSpec:
    """The spec of values that nobody saw: around zero for floating point, zeros for the rest."""
    if is_floating(spec.dtype):
        return replace(spec, seed=0, statistics={"min": -3.0, "max": 3.0, "mean": 0.0, "std": 1.0})
    return replace(spec, seed=0, statistics={"min": 0.0, "max": 0.0})


def fill(window: Any, spec: StorageSpec) -> None:
    """Write synthetic values into the window, a flat uint8 tensor on the CPU."""
    torch = features.module("torch")
    kind = _real_kind(torch, spec.dtype)
    with torch.no_grad():
        count = min(BLOCK, -(-window.numel() // kind.itemsize))
        block = _draw(torch, count, spec).to(kind).view(torch.uint8)
        for at in range(0, window.numel(), max(1, block.numel())):
            part = window[at : at + block.numel()]
            part.copy_(block[: part.numel()])


def _typed(torch: Any, window: Any, dtype: str) -> Any:
    """The window's whole elements; a complex number counts as two real ones."""
    kind = _real_kind(torch, dtype)
    if window.storage_offset() % kind.itemsize:
        window = window.clone()
    return window[: window.numel() // kind.itemsize * kind.itemsize].view(kind)


def _real_kind(torch: Any, dtype: str) -> Any:
    kind = features.require(torch, dtype)
    if not kind.is_complex:
        return kind
    return {torch.complex32: torch.float16, torch.complex64: torch.float32}.get(kind, torch.float64)


def _statistics(sample: Any, finite: Any) -> dict[str, float]:
    if finite.numel() == 0:
        return {"min": 0.0, "max": 0.0, "mean": 0.0, "std": 0.0}
    found = {
        "min": float(finite.min()),
        "max": float(finite.max()),
        "mean": float(finite.mean().nan_to_num()),
        "std": float(finite.std().nan_to_num()) if finite.numel() > 1 else 0.0,
    }
    if finite.numel() < sample.numel():
        found["not_finite"] = 1 - finite.numel() / sample.numel()
    return found


def _draw(torch: Any, count: int, spec: StorageSpec) -> Any:
    generator = torch.Generator(device="cpu").manual_seed(spec.seed or 0)
    low, high = spec.statistics.get("min", 0.0), spec.statistics.get("max", 0.0)
    if is_floating(spec.dtype):
        mean, std = spec.statistics.get("mean", 0.0), spec.statistics.get("std", 0.0)
        values = torch.randn(count, generator=generator, dtype=torch.float64, device="cpu")
        return values.mul_(std).add_(mean).clamp_(low, high)
    low, high = max(int(low), -(1 << 63)), min(int(high), (1 << 63) - 2)
    return torch.randint(min(low, high), high + 1, (count,), generator=generator, device="cpu")
