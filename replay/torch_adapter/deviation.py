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
    same = features.require(features.module("torch._dynamo.utils"), "same")
    for one in trios:
        if not _is_real(one.compiled) or not _is_real(one.uncompiled):
            continue
        golden = one.golden if _is_real(one.golden) else one.uncompiled
        alike = one.compiled.shape == one.uncompiled.shape and same(
            one.uncompiled, one.compiled, golden, tol=tolerance, equal_nan=True, log_error=_unheard
        )
        if not alike:
            return _measured(one, golden, tolerance)
    return None


def _is_real(value: Any) -> bool:
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
    compiled, uncompiled, reference = (
        (value.to_dense() if value.is_sparse else value).to(wide) for value in values
    )
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
