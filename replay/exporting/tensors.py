"""Recorded tensors to expressions: by shape, dtype, strides and device; values where they are few or have a pattern.

Random values stand for the rest, unless the transcript asks for exact ones. Works on specs, and on the values as they
are on the CPU, so that no device is needed.
"""

from __future__ import annotations

import ast
import math
from typing import Any

from replay.exporting import expressions
from replay.exporting.expressions import literal
from replay.exporting.transcript import RefusedError, Transcript
from replay.recording import Manifest, TensorSpec
from replay.torch_adapter import features
from replay.torch_adapter.keyed import Keys
from replay.torch_adapter.tensors import TensorBuilder

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


class Tensors:
    """The tensors of one bundle."""

    def __init__(self, manifest: Manifest, keys: Keys, values: TensorBuilder) -> None:
        self._manifest, self._keys, self._values = manifest, keys, values
        self.transcript: Transcript

    def write(self, tensor: Any, path: str) -> ast.expr:
        """The expression of a loaded tensor. Raises RefusedError for a subclass, and for what is rarer still."""
        key = self._keys.of(tensor)
        if key is None:
            raise RefusedError(
                f"{path} ({type(tensor).__qualname__})", "a tensor of a class or layout of its own"
            )
        return self._of(key, path)

    def _of(self, key: str, path: str) -> ast.expr:
        spec = self._manifest.tensors[key]
        for odd in ("neg", "inference"):
            if getattr(spec, odd):
                raise RefusedError(path, f"a tensor that is {odd}")
        if spec.grad is not None:
            self.transcript.notes.append(f"{path}.grad is left out")
        if spec.kind == "parameter":
            named = {} if spec.requires_grad else {"requires_grad": literal(False)}
            return expressions.call("torch.nn.Parameter", [self._dense(key, spec)], named)
        view = self._view(key, spec, path)
        made = self._dense(key, spec, grad=True) if view is None else _graded(view, spec)
        if spec.conj:
            made = expressions.method(made, "conj")
        return made

    def _view(self, key: str, spec: TensorSpec, path: str) -> ast.expr | None:
        """A view of its base, or of memory that several share; None for a tensor with memory of its own."""
        base = None if spec.base is None else self._manifest.tensors[spec.base]
        if spec.base is not None and base is not None and base.dtype == spec.dtype and not base.conj:
            owner = self._variable(spec.base, f"{path.rpartition('.')[2]}_base", path)
            return _part(owner, base, spec)
        if spec.storage is None or not self._others(key, spec):
            return None
        memory = f"memory {spec.storage}"
        if memory not in self.transcript.taken:
            length = max(_extent(self._manifest.tensors[one]) for one in (key, *self._others(key, spec)))
            whole = TensorSpec((length,), (1,), 0, spec.dtype, spec.device, spec.storage)
            name = self.transcript.fresh("memory")
            self.transcript.taken[memory] = name
            values = self._values.get(key).detach()
            flat = values.as_strided((length,), (1,), 0)
            self.transcript.statements.append(expressions.assigned(name, self._made(whole, flat)))
        owner = ast.Name(self.transcript.taken[memory])
        return expressions.method(owner, "as_strided", *map(literal, (spec.shape, spec.stride, spec.offset)))

    def _others(self, key: str, spec: TensorSpec) -> list[str]:
        """The other recorded tensors of one dtype that share its memory."""
        return [
            one
            for one in sorted(self._keys.made - {key})
            if self._manifest.tensors[one].storage == spec.storage
            and self._manifest.tensors[one].dtype == spec.dtype
            and _extent(self._manifest.tensors[one]) > 0
        ]

    def _variable(self, key: str, wanted: str, path: str) -> ast.expr:
        known = f"tensor {key}"
        for made in (one for one in self._keys.tensors(key) if id(one) in self.transcript.known):
            return self.transcript.known[id(made)]
        if known not in self.transcript.taken:
            made = self._of(key, path)
            name = self.transcript.fresh(wanted)
            self.transcript.taken[known] = name
            self.transcript.statements.append(expressions.assigned(name, made))
            for one in self._keys.tensors(key):
                self.transcript.known[id(one)] = ast.Name(name)
        return ast.Name(self.transcript.taken[known])

    def _dense(self, key: str, spec: TensorSpec, *, grad: bool = False) -> ast.expr:
        """A tensor with memory of its own."""
        values = None if spec.device == "meta" else self._values.get(key).detach().resolve_conj()
        if _is_contiguous(spec):
            wanted = grad and spec.requires_grad
            made = self._made(spec, values, graded=wanted)
            fit = wanted and "requires_grad" in _keywords(made)
            return _graded(made, spec, already=fit) if wanted else made
        if _overlaps(spec):
            length = _extent(spec) - spec.offset
            whole = TensorSpec((length,), (1,), 0, spec.dtype, spec.device, spec.storage)
            flat = None if values is None else values.as_strided((length,), (1,))
            made = self._made(whole, flat)
            made = expressions.method(made, "as_strided", literal(spec.shape), literal(spec.stride))
        else:
            plain = TensorSpec(spec.shape, _steps(spec.shape), 0, spec.dtype, "cpu", spec.storage)
            empty = expressions.call(
                "torch.empty_strided",
                [literal(spec.shape), literal(spec.stride)],
                _placed(spec, {}, always=True),
            )
            made = empty if values is None else expressions.method(empty, "copy_", self._made(plain, values))
        return _graded(made, spec) if grad else made

    def _made(self, spec: TensorSpec, values: Any, *, graded: bool = False) -> ast.expr:
        """A contiguous tensor."""
        torch = features.module("torch")
        extra = {"requires_grad": literal(True)} if graded and spec.is_leaf else {}
        if values is None or values.numel() == 0:
            return expressions.call("torch.empty", _shape(spec), _placed(spec, extra, always=True))
        flat = values.reshape(-1)
        constant = _constant(torch, flat)
        if constant is not None:
            return _filled(spec, constant, extra)
        if _is_range(torch, flat):
            return _ranged(spec, flat, extra)
        floating = spec.dtype.startswith(("float", "bfloat", "complex"))
        if self._is_written(torch, spec, flat, floating=floating):
            return _written(torch, spec, values, extra)
        if self.transcript.exact:
            self.transcript.notes.append("tensors of more than 1024 elements have other values than recorded")
        self.transcript.seeded = True
        return _random(torch, spec, flat, extra)

    def _is_written(self, torch: Any, spec: TensorSpec, flat: Any, *, floating: bool) -> bool:
        """Whether all values stand in the file. Made-up ones need not."""
        storage = self._manifest.storages.get(spec.storage or "")
        if storage is not None and storage.entry is None and not self.transcript.exact:
            return False
        if self.transcript.exact:
            return bool(flat.numel() <= EXACT_INLINE)
        if not floating:
            return bool(flat.numel() <= INTEGERS_INLINE)
        if flat.numel() > FLOATS_INLINE:
            return False
        short = _short(torch, flat.tolist(), flat.dtype)
        return flat.numel() == 1 or all(len(repr(one)) <= SHORT for one in short)


def _shape(spec: TensorSpec) -> list[ast.expr]:
    return [literal(one) for one in spec.shape] or [literal(())]


def _placed(
    spec: TensorSpec, extra: dict[str, ast.expr], *, always: bool = False, usual: str = "float32"
) -> Any:
    """The keyword arguments for dtype and device, where they are not the usual ones."""
    named = {}
    if (always and spec.dtype != "float32") or (not always and spec.dtype != usual):
        named["dtype"] = expressions.dotted(f"torch.{spec.dtype}")
    if spec.device != "cpu":
        named["device"] = literal(spec.device.removesuffix(":0"))
    return {**named, **extra}


def _filled(spec: TensorSpec, value: Any, extra: dict[str, ast.expr]) -> ast.expr:
    if value in (0, 1) and spec.dtype != "bool":
        maker = "torch.ones" if value else "torch.zeros"
        return expressions.call(maker, _shape(spec), _placed(spec, extra))
    usual = {bool: "bool", int: "int64", float: "float32"}.get(type(value), "")
    return expressions.call(
        "torch.full", [literal(spec.shape), literal(value)], _placed(spec, extra, usual=usual)
    )


def _ranged(spec: TensorSpec, flat: Any, extra: dict[str, ast.expr]) -> ast.expr:
    floating = flat.is_floating_point()
    end = float(flat.numel()) if floating else int(flat.numel())
    usual = "float32" if floating else "int64"
    if len(spec.shape) == 1:
        return expressions.call("torch.arange", [literal(end)], _placed(spec, extra, usual=usual))
    made = expressions.call("torch.arange", [literal(end)], _placed(spec, {}, usual=usual))
    return expressions.method(made, "view", *_shape(spec))


def _written(torch: Any, spec: TensorSpec, values: Any, extra: dict[str, ast.expr]) -> ast.expr:
    usual = {"float": "float32", "int": "int64", "bool": "bool", "complex": "complex64"}
    found = _short(torch, values.tolist(), values.dtype)
    kind = type(values.reshape(-1)[0].item()).__name__
    return expressions.call("torch.tensor", [literal(found)], _placed(spec, extra, usual=usual.get(kind, "")))


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
    shape = _shape(spec)
    if spec.dtype in _DRAWN:
        return expressions.call("torch.randn", shape, _placed(spec, extra))
    if spec.dtype.startswith(("float", "bfloat", "complex")):
        made = expressions.call(
            "torch.randn", shape, _placed(TensorSpec((), (), 0, "float32", spec.device, None), {})
        )
        return expressions.method(made, "to", expressions.dotted(f"torch.{spec.dtype}"))
    wide = flat.to(torch.int64) if spec.dtype in (*_WIDE, "bool") else flat
    bounds = [literal(int(wide.min())), literal(int(wide.max()) + 1), literal(spec.shape)]
    if spec.dtype in _WIDE:
        made = expressions.call("torch.randint", bounds, _placed(spec, {}, usual=spec.dtype))
        return expressions.method(made, "to", expressions.dotted(f"torch.{spec.dtype}"))
    return expressions.call("torch.randint", bounds, _placed(spec, {}, usual="int64"))


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


def _graded(made: ast.expr, spec: TensorSpec, *, already: bool = False) -> ast.expr:
    """With a gradient wanted; one that is no leaf is computed from one that is."""
    if not spec.requires_grad:
        return made
    if not already:
        made = expressions.method(made, "requires_grad_")
    return made if spec.is_leaf else expressions.method(made, "clone")


def _keywords(made: ast.expr) -> set[str | None]:
    return {one.arg for one in made.keywords} if isinstance(made, ast.Call) else set()


def _part(owner: ast.expr, base: TensorSpec, spec: TensorSpec) -> ast.expr:
    """A view, as people write it where it is a plain one."""
    if spec.offset == base.offset and _is_contiguous(base) and _size(base) == _size(spec):
        if _is_contiguous(spec):
            return expressions.method(owner, "view", *_shape(spec))
        if len(spec.shape) == 2 and spec.shape == base.shape[::-1] and spec.stride == base.stride[::-1]:
            return expressions.method(owner, "t")
    return expressions.method(owner, "as_strided", *map(literal, (spec.shape, spec.stride, spec.offset)))


def _size(spec: TensorSpec) -> int:
    size = 1
    for one in spec.shape:
        size *= one
    return size


def _steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(size, 1)
    return tuple(reversed(steps))


def _is_contiguous(spec: TensorSpec) -> bool:
    """Whether the strides are those of a new tensor; a dimension of one element may have any."""
    pairs = zip(spec.shape, spec.stride, _steps(spec.shape), strict=True)
    return _size(spec) == 0 or all(size == 1 or step == usual for size, step, usual in pairs)


def _overlaps(spec: TensorSpec) -> bool:
    """Whether two elements share memory."""
    reach = 0
    for step, size in sorted(zip(spec.stride, spec.shape, strict=True)):
        if size > 1:
            if step <= reach:
                return True
            reach += step * (size - 1)
    return False


def _extent(spec: TensorSpec) -> int:
    """One past the last element of its storage that it reads; 0 where it has none."""
    if _size(spec) == 0:
        return 0
    return (
        spec.offset + 1 + sum((size - 1) * step for size, step in zip(spec.shape, spec.stride, strict=True))
    )
