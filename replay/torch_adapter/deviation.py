"""How far one tensor is from another: torch's own judgement of "the same", and the numbers behind it.

Nothing here runs graphs or knows frames.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from replay.recording import Difference
from replay.torch_adapter import features

_PLACE = re.compile(r'File "(.+)", line (\d+), in (\S+)')


@dataclass(frozen=True, slots=True)
class Trio:
    """One result, computed three ways."""

    where: str  # as Difference.where
    compiled: Any
    uncompiled: Any
    golden: Any  # in float64, or as uncompiled
    node: Any = None  # of the graph, that computes it


def first(trios: Iterable[Trio], tolerance: float) -> Difference | None:
    """The first that is not the same, as torch's accuracy tools judge; what is no tensor is passed over."""
    found = (difference(one, tolerance) for one in trios)
    return next((one for one in found if one is not None), None)


def difference(one: Trio, tolerance: float) -> Difference | None:
    """How the compiled one of three tensors is not the same; None if it is, or if these are no tensors with values."""
    if not is_real(one.compiled) or not is_real(one.uncompiled):
        return None
    same = features.require(features.module("torch._dynamo.utils"), "same")
    golden = _golden(one)
    alike = one.compiled.shape == one.uncompiled.shape and same(
        one.uncompiled, one.compiled, golden, tol=tolerance, equal_nan=True, log_error=_unheard
    )
    return None if alike else _measured(one, golden, tolerance)


def error(one: Trio) -> float:
    """Root mean square deviation of the compiled tensor from the reference; where they are equal or both NaN: none."""
    if not is_real(one.compiled) or one.compiled.numel() == 0:
        return 0.0
    torch = features.module("torch")
    wide = torch.complex128 if one.compiled.is_complex() else torch.float64
    compiled, reference = (_dense(value).to(wide) for value in (one.compiled, _golden(one)))
    alike = (compiled == reference) | (compiled.isnan() & reference.isnan())
    apart = (compiled - reference).abs().masked_fill(alike, 0.0)
    return float(torch.sqrt(torch.mean(apart**2)))


def equal(one: Any, other: Any) -> bool:
    """Whether two tensors hold the same values, NaN equal to NaN."""
    torch = features.module("torch")
    one, other = one.detach(), other.detach()
    if one.shape != other.shape or one.dtype != other.dtype or one.device != other.device:
        return False
    if torch.equal(one, other):
        return True
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def _golden(one: Trio) -> Any:
    """The reference, where it is one of the same shape; else what uncompiled code gave."""
    fits = is_real(one.golden) and one.golden.shape == one.uncompiled.shape
    return one.golden if fits else one.uncompiled


def _dense(value: Any) -> Any:
    return value if value.layout is features.module("torch").strided else value.to_dense()


def is_real(value: Any) -> bool:
    """Whether it is a tensor that has values."""
    return isinstance(value, features.module("torch").Tensor) and value.device.type != "meta"


def _measured(one: Trio, golden: Any, tolerance: float) -> Difference:
    """The difference in numbers: over the whole tensor, and where it is largest."""
    torch, place = features.module("torch"), place_of(one.node)
    if one.compiled.shape != one.uncompiled.shape:
        return Difference(
            where=one.where,
            index=(),
            compiled=math.nan,
            uncompiled=math.nan,
            reference=math.nan,
            error=math.inf,
            baseline=math.nan,
            tolerance=tolerance,
            place=place,
        )
    values = (one.compiled, one.uncompiled, golden)
    wide = torch.complex128 if one.compiled.is_complex() else torch.float64
    compiled, uncompiled, reference = (_dense(value).to(wide) for value in values)
    apart = torch.nan_to_num((compiled - reference).abs(), nan=math.inf).flatten()
    flat = int(apart.argmax()) if apart.numel() else 0
    index = torch.unravel_index(torch.tensor(flat), compiled.shape) if compiled.ndim else ()
    return Difference(
        where=one.where,
        index=tuple(int(i) for i in index),
        compiled=_number(compiled.flatten()[flat]),
        uncompiled=_number(uncompiled.flatten()[flat]),
        reference=_number(reference.flatten()[flat]),
        error=_rmse(compiled, reference),
        baseline=_rmse(uncompiled, reference),
        tolerance=tolerance,
        place=place,
    )


def _number(value: Any) -> float:
    return float(value.abs() if value.is_complex() else value)


def _rmse(value: Any, reference: Any) -> float:
    torch = features.module("torch")
    return float(torch.sqrt(torch.mean((value - reference).abs() ** 2)))


def place_of(node: Any) -> tuple[str, int, str] | None:
    """File, line and function of the program that made a node; None if torch does not know."""
    trace = getattr(node, "stack_trace", None) or getattr(node, "meta", {}).get("stack_trace")
    places = _PLACE.findall(trace or "")
    return (places[-1][0], int(places[-1][1]), places[-1][2]) if places else None


def _unheard(*_: Any) -> None:
    """In place of torch's log: what differs is told by us."""
