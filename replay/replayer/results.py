"""What the calls of a repeated sequence give, kept, and held against the same calls uncompiled and unchanged."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from replay import isolation
from replay.recording.comparison import Comparison
from replay.replayer import likeness, sequence, twins
from replay.replayer.launch import UNCOMPILED_RUN
from replay.replayer.preparation import prepare
from replay.replayer.task import Task
from replay.replayer.twins import Run
from replay.torch_adapter import accuracy, compiling, deviation, holdings, stances, state
from replay.torch_adapter.holdings import Holdings

KEPT = 256 << 20
"""Bytes of what the calls give that are kept for the comparison, at most."""


@dataclass(slots=True)
class Given:
    """What the calls of one run gave, in their order: values, or the type of what was raised."""

    calls: list[Holdings | str] = field(default_factory=list)
    left: int = KEPT

    def keep(self, output: Any) -> None:
        """One more call gave something. Raises MemoryError where all of it is too much to keep."""
        held = holdings.look({"output": output})
        copied = {path: self._copy(value) for path, value in held.found.items()}
        self.calls.append(Holdings(copied, held.whole))

    def _copy(self, value: Any) -> Any:
        """Memory of its own: later calls may write to what this one gave."""
        if not deviation.is_real(value):
            return value
        self.left -= value.numel() * value.element_size()
        if self.left < 0:
            raise MemoryError(f"the calls give more than {KEPT >> 20} MB")
        return value.detach().clone()


def compare(task: Task, given: Given, *, loose: bool) -> Comparison:
    """What the calls of a compiled run gave, against the same sequence uncompiled, over values of its own.

    `loose`: a tensor of another dtype than uncompiled code gives is compared in that dtype.
    """
    plain, drew = uncompiled(task)
    tolerance = accuracy.default_tolerance()
    total = Comparison(tolerance=tolerance, reference="uncompiled")
    if len(plain.calls) != len(given.calls):
        return replace(total, skipped="not as many calls were made uncompiled")
    for number, (one, two) in enumerate(zip(given.calls, plain.calls, strict=True)):
        total = _added(total, _alike(one, two, tolerance, loose=loose), number)
    if total.where and drew:
        return replace(total, skipped="the frame draws random numbers", where="", unlike=None)
    return total


def uncompiled(task: Task) -> tuple[Given, bool]:
    """What the sequence gives uncompiled and unchanged, and whether it draws random numbers."""
    given = Given()
    with ExitStack() as stack:
        prepared = prepare(twins.alone(task, backend=compiling.UNCOMPILED, mode=None, instruments={}), stack)
        isolation.announce(UNCOMPILED_RUN)
        stack.enter_context(stances.uncompiled())
        state.seed(task.manifest.state)
        start = state.generators()
        repetition = sequence.Repetition(prepared)

        def call(*positional: Any, **keywords: Any) -> None:
            try:
                output = prepared.subject(*positional, **keywords)
            except Exception as error:  # noqa: BLE001 - it may be what compiled code raises as well
                given.calls.append(type(error).__qualname__)
            else:
                given.keep(output)

        repetition.lead(call)
        with repetition.step():
            call(*prepared.positional, **prepared.keywords)
        repetition.trail(call)
        return given, state.generators() != start


def _alike(one: Holdings | str, two: Holdings | str, tolerance: float, *, loose: bool) -> Comparison:
    """What one call gave, compiled and uncompiled."""
    if isinstance(one, str) or isinstance(two, str):
        said = tuple(f"raised {each}" if isinstance(each, str) else "a result" for each in (one, two))
        unlike = None if one == two else (said[0], said[1])
        return Comparison(values=1, where="" if unlike is None else "output", unlike=unlike)
    if loose:
        one = Holdings(
            {path: _as(value, two.found.get(path)) for path, value in one.found.items()}, one.whole
        )
    found, _ = likeness.compare(Run(output=one), Run(output=two), None, tolerance)
    return found


def _as(value: Any, other: Any) -> Any:
    if not deviation.is_real(value) or not deviation.is_real(other):
        return value
    return value.to(device=other.device, dtype=other.dtype)


def _added(total: Comparison, one: Comparison, number: int) -> Comparison:
    """The comparison of all calls with that of one more."""
    first = bool(one.where and not total.where)
    return replace(
        total,
        outputs=total.outputs + one.outputs,
        values=total.values + one.values,
        largest_error=max(total.largest_error, one.largest_error),
        where=f"{one.where} of call {number}" if first else total.where,
        unlike=one.unlike if first else total.unlike,
    )
