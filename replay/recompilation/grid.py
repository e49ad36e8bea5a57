"""A recorded sequence of calls under a grid of settings: limits of recompilation, dynamic shapes or not.

Each setting is a replay in a process of its own, with empty caches, so that nothing which one of them has compiled, or
has learnt of dynamic shapes, is there for another. What the numbers mean is said in `replay.findings.recompiles`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from typing import Any

from replay.bundle import Bundle
from replay.errors import UsageError
from replay.findings.recompiles import Cell
from replay.recompilation.counting import count
from replay.recording import Manifest, Outcome
from replay.replayer import Trial, Trials
from replay.replayer.settings import DYNAMIC

LIMITS = (1, 2, 4, 8, 16, 64)
DYNAMICS: tuple[bool | None, ...] = (True, False, None)

Heard = Callable[[Cell], None]
"""Hears of each cell as it is known."""


def grid(
    bundle: Bundle,
    trials: Trials,
    *,
    limits: Sequence[int] = LIMITS,
    accumulated: Sequence[int] = (),
    dynamics: Sequence[bool | None] = DYNAMICS,
    options: Mapping[str, Any] = {},
    heard: Heard | None = None,
) -> tuple[Cell, ...]:
    """Repeat the recorded calls under every combination; a cell for each, limits ascending within a `dynamic`.

    `limits`: recompile limits. `accumulated`: accumulated limits, each with each of `limits`; none: as recorded.
    `dynamics`: torch.compile's `dynamic`; None: automatic, as the recorded config lets it be, also where the program
    asked for something else. All other settings are the recording's, or as `options` says, in the words of
    `replay.run`. Of calls that were counted (`record(calls=True)`), equal ones in a row are one call. A trial that
    could not be made is a cell that says why. Where no frame was compiled so often that a lower limit could be hit, a
    cell has the count of the trial with the higher limit: it would be the same, call by call.

    Raises UsageError for a bundle without a sequence, and for a limit that is no whole number of at least 1.
    """
    _check(bundle, limits, accumulated)
    columns = [
        _Column(dynamic, most, _options(bundle.manifest, options, dynamic, most), sorted(set(limits)))
        for dynamic in dict.fromkeys(dynamics)
        for most in (sorted(set(accumulated)) or (None,))
    ]
    running = {_submit(trials, column): column for column in columns}
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            column = running.pop(future)
            for cell in column.settle(future.result()):
                if heard is not None:
                    heard(cell)
            if column.open:
                running[_submit(trials, column)] = column
    return tuple(cell for column in columns for cell in sorted(column.cells, key=lambda one: one.limit))


@dataclass(slots=True)
class _Column:
    """The cells that differ in nothing but the limit. The highest is tried first: it tells most."""

    dynamic: bool | None
    accumulated: int | None
    options: Mapping[str, Any]
    open: list[int]  # limits without a cell, ascending
    cells: list[Cell]

    def __init__(
        self, dynamic: bool | None, accumulated: int | None, options: Mapping[str, Any], limits: list[int]
    ) -> None:
        self.dynamic, self.accumulated, self.options = dynamic, accumulated, options
        self.open, self.cells = limits, []

    def trial(self) -> Trial:
        """The trial of the highest limit that is open."""
        return Trial({**self.options, "recompile_limit": self.open[-1]})

    def settle(self, trial: Trial) -> Iterator[Cell]:
        """The cells that the trial of the highest open limit tells of."""
        cell = self._cell(self.open.pop(), trial)
        yield self._kept(cell)
        if cell.count is None or trial.outcome is None:
            return
        while self.open and self.open[-1] > _most_compiled(trial.outcome):
            yield self._kept(replace(cell, limit=self.open.pop()))

    def _kept(self, cell: Cell) -> Cell:
        self.cells.append(cell)
        return cell

    def _cell(self, limit: int, trial: Trial) -> Cell:
        refused = trial.refused or _lacking(trial.outcome)
        counted = None if refused or trial.outcome is None else count(trial.outcome.calls)
        return Cell(self.dynamic, limit, self.accumulated, counted, refused)


def _submit(trials: Trials, column: _Column) -> Future[Trial]:
    return trials.submit(column.trial())


def _options(
    manifest: Manifest, options: Mapping[str, Any], dynamic: bool | None, accumulated: int | None
) -> dict[str, Any]:
    """The options of a replay. That nothing is asked of `dynamic` means there: as recorded."""
    asked = {**options, "dynamic": dynamic}
    if dynamic is None and manifest.compile.dynamic is not None:
        asked["without"] = tuple(dict.fromkeys((*options.get("without", ()), DYNAMIC)))
    if accumulated is not None:
        asked["accumulated_recompile_limit"] = accumulated
    return asked


def _most_compiled(outcome: Outcome) -> int:
    """How often the frame was compiled that was compiled most often: a higher limit cannot have been hit."""
    return max((one.compiles for one in outcome.frames), default=0)


def _lacking(outcome: Outcome | None) -> str:
    """Why an outcome tells nothing of the calls; empty if it does."""
    if outcome is None or outcome.calls:
        return ""
    if outcome.missing:
        first = outcome.missing[0]
        return f"missing: {first.name}" + (f" ({first.reason})" if first.reason else "")
    if outcome.error is not None:
        return f"{outcome.error.type}: {outcome.error.message}".partition("\n")[0]
    return "the calls were not repeated"


def _check(bundle: Bundle, limits: Sequence[int], accumulated: Sequence[int]) -> None:
    if bundle.manifest.sequence is None:
        raise UsageError(
            f"{bundle.path}: it holds no sequence of calls; record the program with --on recompile"
        )
    for name, values in (("limits", limits), ("accumulated limits", accumulated)):
        for value in values:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"{name}: {value!r} must be a whole number of at least 1")
    if not limits:
        raise UsageError("limits: give one at least, such as 8")
