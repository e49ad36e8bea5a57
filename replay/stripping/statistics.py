"""What is kept of a tensor's values where they go: least and greatest, mean and deviation of a sample.

As the recorder's own metadata has it, but read from the bundle's bytes without torch: of types that Python cannot read
nothing is kept, and their values will be drawn around zero.
"""

from __future__ import annotations

import math
import statistics
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from replay.recording import StorageSpec

SAMPLE = 65_536
_FORMATS: Mapping[str, str] = {
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "int8": "b",
    "uint8": "B",
    "bool": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
}
_UNSEEN = {"min": -3.0, "max": 3.0, "mean": 0.0, "std": 1.0}


def metadata_of(spec: StorageSpec, dtype: str, data: memoryview) -> StorageSpec:
    """The spec of a storage without its bytes. `dtype`: of the tensors in it; `data`: the bytes."""
    seed = (spec.nbytes * 2_654_435_761 + spec.length) % (1 << 31)
    floating = dtype.startswith(("float", "bfloat", "complex"))
    return replace(
        spec, entry=None, dtype=dtype, seed=seed, statistics=_statistics(dtype, data, floating=floating)
    )


def _statistics(dtype: str, data: memoryview, *, floating: bool) -> dict[str, float]:
    kind = _FORMATS.get(dtype)
    if kind is None:
        return dict(_UNSEEN) if floating else {"min": 0.0, "max": 0.0}
    size = struct.calcsize(kind)
    whole: Any = data[: len(data) // size * size].cast("B")
    numbers = whole.cast(kind)
    sample = [float(numbers[at]) for at in range(0, len(numbers), max(1, len(numbers) // SAMPLE))]
    finite = [one for one in sample if math.isfinite(one)]
    if not finite:
        return {"min": 0.0, "max": 0.0, "mean": 0.0, "std": 0.0}
    found = {"min": min(finite), "max": max(finite), "mean": statistics.fmean(finite)}
    found["std"] = (
        statistics.pstdev(finite, found["mean"]) if len(finite) > 1 and max(map(abs, finite)) < 1e150 else 0.0
    )
    if len(finite) < len(sample):
        found["not_finite"] = 1 - len(finite) / len(sample)
    return found
