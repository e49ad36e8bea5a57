"""The values of a contiguous tensor as an expression: a pattern, the values themselves, or random ones.

Looks at the values on the CPU. Strides, views and devices' memory are the business of `tensors`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

from replay.exporting import expressions
from replay.exporting.expressions import literal
from replay.recording import TensorSpec
from replay.torch_adapter import features

FLOATS_INLINE = 16
"""So many floating-point values are written out, if all are short numbers such as 0.5; else one alone is."""
SHORT = 6
"""Characters of a short number."""
INTEGERS_INLINE = 32
"""So many integers and booleans are: they are sizes and indices more often than not."""
EXACT_INLINE = 1024
"""So many values of any type are, where values are to be exact."""
_DRAWN = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
"""What torch.randn makes itself."""
_WIDE = ("uint16", "uint32", "uint64")
"""Integers that torch.randint does not make."""


def patterned(spec: TensorSpec, values: Any, *, graded: bool = False) -> ast.expr | None:
    """An empty tensor, one of equal values, or a range; None for any other. `graded`: it requires a gradient.

    `values` may be None: there are none, as on the device "meta".
    """
    torch = features.module("torch")
    extra = _extra(graded)
    if values is None or values.numel() == 0:
        return expressions.call("torch.empty", shape(spec), placed(spec, extra))
    flat = values.reshape(-1)
    constant = _constant(torch, flat)
    if constant is not None:
        return _filled(spec, constant, extra)
    return _ranged(spec, flat, extra) if _is_range(torch, flat) else None


def written(spec: TensorSpec, values: Any, *, graded: bool = False) -> ast.expr:
    """The values themselves."""
    return _written(features.module("torch"), spec, values, _extra(graded))


def drawn(spec: TensorSpec, values: Any, *, graded: bool = False) -> ast.expr:
    """Random values; integers between the smallest and the largest."""
    return _random(features.module("torch"), spec, values.reshape(-1), _extra(graded))


def are_few(values: Any) -> bool:
    """Whether there are so few, and so short ones, that they stand in the file."""
    if not (values.is_floating_point() or values.is_complex()):
        return bool(values.numel() <= INTEGERS_INLINE)
    if values.numel() > FLOATS_INLINE:
        return False
    short = _short(features.module("torch"), values.reshape(-1).tolist(), values.dtype)
    return values.numel() == 1 or all(len(repr(one)) <= SHORT for one in short)


def _extra(graded: bool) -> dict[str, ast.expr]:
    return {"requires_grad": literal(True)} if graded else {}


def shape(spec: TensorSpec) -> list[ast.expr]:
    """Its sizes as arguments."""
    return [literal(one) for one in spec.shape] or [literal(())]


def placed(spec: TensorSpec, extra: Mapping[str, ast.expr], *, usual: str = "float32") -> dict[str, ast.expr]:
    """The keyword arguments for dtype and device. `usual`: the dtype that needs no word."""
    named: dict[str, ast.expr] = {}
    if spec.dtype != usual:
        named["dtype"] = expressions.dotted(f"torch.{spec.dtype}")
    if spec.device != "cpu":
        named["device"] = literal(spec.device.removesuffix(":0"))
    return {**named, **extra}


def _filled(spec: TensorSpec, value: Any, extra: dict[str, ast.expr]) -> ast.expr:
    if value in (0, 1) and spec.dtype != "bool":
        maker = "torch.ones" if value else "torch.zeros"
        return expressions.call(maker, shape(spec), placed(spec, extra))
    usual = {bool: "bool", int: "int64", float: "float32"}.get(type(value), "")
    return expressions.call(
        "torch.full", [literal(spec.shape), literal(value)], placed(spec, extra, usual=usual)
    )


def _ranged(spec: TensorSpec, flat: Any, extra: dict[str, ast.expr]) -> ast.expr:
    floating = flat.is_floating_point()
    end = float(flat.numel()) if floating else int(flat.numel())
    usual = "float32" if floating else "int64"
    if len(spec.shape) == 1:
        return expressions.call("torch.arange", [literal(end)], placed(spec, extra, usual=usual))
    made = expressions.call("torch.arange", [literal(end)], placed(spec, {}, usual=usual))
    return expressions.method(made, "view", *shape(spec))


def _written(torch: Any, spec: TensorSpec, values: Any, extra: dict[str, ast.expr]) -> ast.expr:
    usual = {"float": "float32", "int": "int64", "bool": "bool", "complex": "complex64"}
    found = _short(torch, values.tolist(), values.dtype)
    kind = type(values.reshape(-1)[0].item()).__name__
    return expressions.call("torch.tensor", [literal(found)], placed(spec, extra, usual=usual.get(kind, "")))


def _short(torch: Any, held: Any, dtype: Any) -> Any:
    """Numbers in as few digits as give the same value in their dtype."""
    if isinstance(held, list):
        return [_short(torch, one, dtype) for one in held]
    if not isinstance(held, float) or not dtype.is_floating_point or math.isnan(held):
        return held
    for digits in range(1, 18):
        short = float(f"{held:.{digits}g}")
        if torch.tensor(short, dtype=dtype).item() == held:
            return short
    return held


def _random(torch: Any, spec: TensorSpec, flat: Any, extra: dict[str, ast.expr]) -> ast.expr:
    sizes = shape(spec)
    if spec.dtype in _DRAWN:
        return expressions.call("torch.randn", sizes, placed(spec, extra))
    if spec.dtype.startswith(("float", "bfloat", "complex")):
        made = expressions.call(
            "torch.randn", sizes, placed(TensorSpec((), (), 0, "float32", spec.device, None), {})
        )
        return expressions.method(made, "to", expressions.dotted(f"torch.{spec.dtype}"))
    wide = flat.to(torch.int64) if spec.dtype in (*_WIDE, "bool") else flat
    bounds = [literal(int(wide.min())), literal(int(wide.max()) + 1), literal(spec.shape)]
    if spec.dtype in _WIDE:
        made = expressions.call("torch.randint", bounds, placed(spec, {}, usual=spec.dtype))
        return expressions.method(made, "to", expressions.dotted(f"torch.{spec.dtype}"))
    return expressions.call("torch.randint", bounds, placed(spec, {}, usual="int64"))


def _constant(torch: Any, flat: Any) -> Any:
    """The one value that all elements have; None where they differ, or where it is not a number."""
    if flat.numel() < 2 and flat.is_floating_point():
        return None
    first = flat[0].item()
    if isinstance(first, complex) or math.isnan(first):
        return None
    try:
        same = bool((flat == flat[0]).all())
    except RuntimeError:  # a dtype that torch does not compare
        return None
    return _short(torch, first, flat.dtype) if same else None


def _is_range(torch: Any, flat: Any) -> bool:
    if flat.numel() < 3 or flat.dtype == torch.bool or flat.is_complex() or str(flat.dtype)[6:] in _WIDE:
        return False
    try:
        return bool((flat == torch.arange(flat.numel(), dtype=flat.dtype)).all())
    except RuntimeError:  # a dtype that torch does not count in
        return False
