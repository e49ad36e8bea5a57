"""What the calls of a repeated sequence give and write to, kept, and held against the same calls uncompiled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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

WRITTEN = ", which the frame writes to"
"""How the path of something that a call gave otherwise than as its result ends."""

Roots = Callable[[], Mapping[str, Any]]
"""What a call starts from, by name, as it is now."""
Before = Mapping[str, tuple[Any, int]]
"""What a call could reach: the value under each path, and how often it had been written to."""


@dataclass(frozen=True, slots=True)
class Gave:
    """What one call gave, by path, in memory of its own; `error`: the type of what it raised instead."""

    held: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(slots=True)
class Given:
    """What the calls of one run gave, in their order."""

    calls: list[Gave] = field(default_factory=list)
    left: int = KEPT

    def keep(self, output: Any, before: Before, after: Holdings, wanted: Collection[str] = ()) -> None:
        """One more call returned something. `wanted`: paths to keep also where no write was counted.

        Raises MemoryError where all of it is too much to keep.
        """
        held = dict(holdings.look({"output": output}).found)
        for path, value in after.found.items():
            if path + WRITTEN in wanted or _is_written(value, before.get(path)):
                held[path + WRITTEN] = value
        gone = {
            path + WRITTEN: holdings.Opaque(likeness.ABSENT) for path in before.keys() - after.found.keys()
        }
        self.calls.append(Gave({path: self._copy(value) for path, value in {**held, **gone}.items()}))

    def _copy(self, value: Any) -> Any:
        """Memory of its own: later calls may write to what this one gave."""
        if not deviation.is_real(value):
            return value
        self.left -= value.numel() * value.element_size()
        if self.left < 0:
            raise MemoryError(f"the calls give more than {KEPT >> 20} MB")
        return value.detach().clone()


def remember(roots: Roots) -> Before:
    """What a call can reach, before it is made."""
    return {path: (value, holdings.version(value)) for path, value in holdings.look(roots()).found.items()}


def _is_written(value: Any, before: tuple[Any, int] | None) -> bool:
    if before is None:
        return True
    if deviation.is_real(value):
        return value is not before[0] or holdings.version(value) != before[1]
    return type(value) is not type(before[0]) or bool(value != before[0])


def uncompiled(task: Task) -> tuple[Given, bool]:
    """What the sequence gives uncompiled and unchanged, over values of its own; whether it draws random numbers."""
    given = Given()
    with ExitStack() as stack:
        prepared = prepare(twins.alone(task, backend=compiling.UNCOMPILED, mode=None, instruments={}), stack)
        isolation.announce(UNCOMPILED_RUN)
        stack.enter_context(stances.uncompiled())
        state.seed(task.manifest.state)
        start = state.generators()
        repetition = sequence.Repetition(prepared)

        def call(*positional: Any, **keywords: Any) -> None:
            def roots() -> Mapping[str, Any]:
                return holdings.roots_of(prepared.subject, positional, keywords)

            before = remember(roots)
            try:
                output = prepared.subject(*positional, **keywords)
            except Exception as error:  # noqa: BLE001 - it may be what compiled code raises as well
                given.calls.append(Gave(error=type(error).__qualname__))
            else:
                given.keep(output, before, holdings.look(roots()))

        repetition.lead(call)
        with repetition.step():
            call(*prepared.positional, **prepared.keywords)
        repetition.trail(call)
        return given, state.generators() != start


def compare(
    given: Given, plain: Given, *, drew: bool, loose: bool = False, aside: Collection[str] = ()
) -> Comparison:
    """What the calls of a compiled run gave, against an uncompiled run, which drew random numbers or did not.

    `loose`: a tensor of another dtype than uncompiled code gives is compared in that dtype. `aside`: paths that the
    compiled run was to have otherwise.
    """
    tolerance = accuracy.default_tolerance()
    total = Comparison(tolerance=tolerance, reference="uncompiled")
    if len(plain.calls) != len(given.calls):
        return replace(total, skipped="not as many calls were made uncompiled")
    for number, pair in enumerate(zip(given.calls, plain.calls, strict=True)):
        one, two = (replace(each, held=_without(each.held, aside)) for each in pair)
        total = _added(total, _alike(one, two, tolerance, loose=loose), number)
    if total.where and drew:
        return replace(total, skipped="the frame draws random numbers", where="", unlike=None)
    return total


def _without(held: Mapping[str, Any], aside: Collection[str]) -> dict[str, Any]:
    def is_aside(path: str) -> bool:
        return any(path == one + WRITTEN or path.startswith((f"{one}.", f"{one}[")) for one in aside)

    return {path: value for path, value in held.items() if not is_aside(path)}


def _alike(one: Gave, two: Gave, tolerance: float, *, loose: bool) -> Comparison:
    """What one call gave, compiled and uncompiled. That compiled code counts more writes says nothing."""
    if one.error or two.error:
        said = tuple(f"raised {each.error}" if each.error else "a result" for each in (one, two))
        unlike = None if one.error == two.error else (said[0], said[1])
        return Comparison(values=1, where="" if unlike is None else "output", unlike=unlike)
    more = {
        path
        for path, value in one.held.items()
        if path not in two.held and path.endswith(WRITTEN) and deviation.is_real(value)
    }
    compiled = {path: value for path, value in one.held.items() if path not in more}
    if loose:
        compiled = {path: _as(value, two.held.get(path)) for path, value in compiled.items()}
    sides = [Run(output=Holdings(held, whole=True)) for held in (compiled, two.held)]
    found, _ = likeness.compare(sides[0], sides[1], None, tolerance)
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
