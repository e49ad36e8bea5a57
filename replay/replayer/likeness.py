"""Are three runs of a frame alike? Outputs first, then what it wrote to, then gradients. Nothing here runs anything."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from replay.recording import Difference
from replay.recording.comparison import Comparison
from replay.replayer.twins import Run
from replay.torch_adapter import deviation, holdings
from replay.torch_adapter.deviation import Trio
from replay.torch_adapter.holdings import Holdings

ABSENT = "nothing"
"""What stands where one of two runs has no value at all."""

Unlike = tuple[str, str]


@dataclass(slots=True)
class _Tally:
    """What was compared so far, and the first thing that differs."""

    tolerance: float
    difference: Difference | None = None
    unlike: Unlike | None = None
    largest: float = 0.0
    tensors: int = 0
    values: int = 0

    def tensor(self, one: Trio) -> None:
        self.tensors += 1
        self.largest = max(self.largest, deviation.error(one))
        if self.difference is None:
            self.difference = deviation.difference(one, self.tolerance)

    def value(self, where: str, compiled: Any, uncompiled: Any) -> None:
        self.values += 1
        if self.difference is None and not _alike(compiled, uncompiled, self.tolerance):
            self.unlike = (_say(compiled), _say(uncompiled))
            self.difference = _no_number(where, compiled, uncompiled, self.tolerance)


def compare(
    compiled: Run, uncompiled: Run, golden: Run | None, tolerance: float
) -> tuple[Comparison, Difference | None]:
    """What was compared, and the first thing that differs. Both runs gave something."""
    best = golden or uncompiled
    tally, counts = _Tally(tolerance), []
    for step in (_outputs, _written, _gradients):
        tally.tensors = 0
        step(tally, compiled, uncompiled, best)
        counts.append(tally.tensors)
    outputs, written, gradients = counts
    result = Comparison(
        outputs=outputs,
        written=written,
        gradients=gradients,
        values=tally.values,
        largest_error=tally.largest,
        tolerance=tolerance,
        where="" if tally.difference is None else tally.difference.where,
        unlike=tally.unlike,
    )
    return result, tally.difference


def _outputs(tally: _Tally, compiled: Run, uncompiled: Run, best: Run) -> None:
    sides = (_found(one.output) for one in (compiled, uncompiled, best))
    for path, one, two, three in _side_by_side(*sides):
        _put(tally, path, one, two, three)


def _written(tally: _Tally, compiled: Run, uncompiled: Run, best: Run) -> None:
    changed = _changed(compiled) | _changed(uncompiled)
    sides = (_found(one.after) for one in (compiled, uncompiled, best))
    for path, one, two, three in _side_by_side(*sides):
        if path in changed or not _same_memory(one, two):
            _put(tally, f"{path}, which the frame writes to", one, two, three)


def _gradients(tally: _Tally, compiled: Run, uncompiled: Run, best: Run) -> None:
    if compiled.gradients is None or uncompiled.gradients is None:
        return
    third = best.gradients if best.gradients is not None else uncompiled.gradients
    for path, two in uncompiled.gradients.items():
        one = compiled.gradients.get(path)
        known = next((given for given in (one, two) if given is not None), None)
        if known is None:
            continue
        zeros = known * 0  # a gradient that does not come is one of zeros
        filled = [zeros if given is None else given for given in (one, two, third.get(path))]
        _put(tally, f"gradient of {path}", *filled)


def _put(tally: _Tally, where: str, compiled: Any, uncompiled: Any, best: Any) -> None:
    if all(deviation.is_real(one) for one in (compiled, uncompiled)) and _describe(compiled) == _describe(
        uncompiled
    ):
        tally.tensor(Trio(where, *(_bare(one) for one in (compiled, uncompiled, best))))
    else:
        tally.value(where, compiled, uncompiled)


def _bare(value: Any) -> Any:
    return value.detach() if deviation.is_real(value) else value


def _found(held: Holdings | None) -> Mapping[str, Any]:
    return {} if held is None else held.found


_MISSING = holdings.Opaque(ABSENT)
_NOT_THERE = holdings.Before(_MISSING, 0, None)


def _side_by_side(
    compiled: Mapping[str, Any], uncompiled: Mapping[str, Any], best: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any, Any]]:
    for path in {**uncompiled, **compiled}:
        yield (
            path,
            compiled.get(path, _MISSING),
            uncompiled.get(path, _MISSING),
            best.get(path, _MISSING),
        )


def _changed(run: Run) -> set[str]:
    """The paths under which something else stands than before the call, or something that was written to."""
    after = _found(run.after)
    changed = {path for path in run.before if path not in after}
    for path, value in after.items():
        if _is_new(value, run.before.get(path, _NOT_THERE)):
            changed.add(path)
    return changed


def _is_new(value: Any, before: holdings.Before) -> bool:
    if not deviation.is_real(value):
        return not _alike(value, before.value, 0.0)
    if value is not before.value or holdings.version(value) != before.version:
        return True
    return before.copy is not None and not deviation.equal(value, before.copy)


def _same_memory(one: Any, other: Any) -> bool:
    """Whether two values that nobody is known to have written to are equal, bit for bit where they are tensors."""
    if not deviation.is_real(one) or not deviation.is_real(other):
        return True
    return deviation.equal(one, other)


def _alike(one: Any, other: Any, tolerance: float) -> bool:
    if type(one) is not type(other) or deviation.is_real(one) or deviation.is_real(other):
        return False
    if isinstance(one, (float, complex)) and isinstance(other, (float, complex)):
        pairs = [(one.real, other.real), (one.imag, other.imag)]
        return all(_close(first, second, tolerance) for first, second in pairs)
    return bool(one == other)


def _close(one: float, other: float, tolerance: float) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)


def _no_number(where: str, compiled: Any, uncompiled: Any, tolerance: float) -> Difference:
    one, two = _number(compiled), _number(uncompiled)
    return Difference(
        where=where,
        index=(),
        compiled=one,
        uncompiled=two,
        reference=two,
        error=math.inf if math.isnan(one - two) else abs(one - two),
        baseline=0.0 if not math.isnan(two) else math.nan,
        tolerance=tolerance,
    )


def _number(value: Any) -> float:
    if isinstance(value, (bool, int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.nan
    return abs(value) if isinstance(value, complex) else math.nan


def _describe(tensor: Any) -> str:
    shape = ", ".join(str(int(size)) for size in tensor.shape)
    return f"{str(tensor.dtype).removeprefix('torch.')}[{shape}] on {tensor.device}"


def _say(value: Any) -> str:
    if value is _MISSING:
        return ABSENT
    if deviation.is_real(value):
        return f"a tensor {_describe(value)}"
    if isinstance(value, holdings.Container):
        keys = f" with {', '.join(value.keys[:8])}" if value.keys else ""
        return f"{value.kind} of {value.size}{keys}"
    if isinstance(value, holdings.Opaque):
        return f"an object of {value.kind}"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
