"""The sequence of a bundle repeated as it was recorded, and what is found on the way, as data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from replay.bundle import Bundle, load
from replay.errors import ReplayError, UsageError
from replay.findings.recompiles import Call, Cell, Difference, Recompiles, Refusal
from replay.recompilation import causes, grouping
from replay.recompilation.counting import count
from replay.recompilation.grid import LIMITS, grid
from replay.recompilation.remedies import prove
from replay.recording import Outcome, UserFrame
from replay.replayer import Trial, Trials, observe
from replay.replayer.launch import TIMEOUT
from replay.selection import Pattern

INSTRUMENT = "recompiles"
"""Its name in `replay.replayer.instruments`."""
HOW = 'record one with replay.record(directory, on="recompile"), or python -m replay record --on recompile'


def recompiles(
    bundle: Bundle | str | os.PathLike[str],
    backend: str | None = None,
    *,
    function: Pattern | Sequence[Pattern] = (),
    recompile_limit: int | None = None,
    accumulated_recompile_limit: int | None = None,
    dynamic: bool | None = None,
    config: Mapping[str, Any] | None = None,
    env: Mapping[str, str | None] | None = None,
    without: Sequence[str] = (),
    device: str | None = None,
    limits: Sequence[int] = LIMITS,
    accumulated_limits: Sequence[int] = (),
    remedies: bool = True,
    jobs: int | None = None,
    timeout: float | None = TIMEOUT,
    isolate: bool = True,
    trust: bool | None = None,
    sandbox: bool | None = None,
    heard: Callable[[str], None] | None = None,
) -> Recompiles:
    """Repeat a recorded sequence of calls and say of each that came to the compiler again what sent it there.

    Then the sequence is repeated under each of `limits` (and `accumulated_limits`) with `dynamic` true, false and
    automatic, and with every change of the program that may help (`remedies`); those that do are told, with what was
    measured. `jobs`: replays at a time; `timeout`: seconds for each. `trust`, `sandbox`: as `replay.run` takes them.

    The other arguments are those of `replay.run`; what is not given is as recorded. `isolate`: of the first repetition,
    the others run in processes of their own in any case. `heard` is told what is being done. A replay that lacks
    something comes back without calls; its `outcome` has the status "missing". Raises UsageError for a bundle that
    holds no sequence, and what `run` raises.
    """
    options = {
        "backend": backend,
        "function": function,
        "recompile_limit": recompile_limit,
        "accumulated_recompile_limit": accumulated_recompile_limit,
        "dynamic": dynamic,
        "config": config,
        "env": env,
        "without": without,
        "device": device,
    }
    if backend == "uncompiled":
        raise UsageError("--backend uncompiled: nothing is compiled then, so nothing is compiled again")
    started = time.perf_counter()
    opened = bundle if isinstance(bundle, Bundle) else load(Path(bundle))
    try:
        _check(opened)
        tell = heard or (lambda text: None)
        with Trials(opened, jobs=jobs, timeout=timeout, trust=trust, sandbox=sandbox) as trials:
            tell("repeating the sequence")
            outcome, found = _repeated(opened, trials, options, isolate=isolate, trust=trust)
            made = _made(opened, outcome, found)
            if limits or accumulated_limits:
                made = _with_grid(
                    opened, trials, made, options, limits=limits, accumulated=accumulated_limits, tell=tell
                )
            if remedies:
                made = _with_remedies(opened, trials, made, options, tell)
        return replace(made, seconds=time.perf_counter() - started)
    finally:
        if not isinstance(bundle, Bundle):
            opened.close()


def _check(bundle: Bundle) -> None:
    if bundle.manifest.sequence is None:
        raise UsageError(f"{bundle.path}: this bundle holds no sequence of calls; {HOW}")


def _repeated(
    bundle: Bundle, trials: Trials, options: Mapping[str, Any], *, isolate: bool, trust: bool | None
) -> tuple[Outcome, Mapping[str, Any]]:
    """As recorded; in a process like those of the trials that it is compared with."""
    if not isolate:
        observed = observe(bundle, {INSTRUMENT: {}}, options, isolate=False, trust=trust)
        return observed.outcome, observed.found.get(INSTRUMENT) or {}
    (trial,) = trials.run([Trial(options, {INSTRUMENT: {}})])
    if trial.outcome is None:
        raise ReplayError(trial.refused)
    return trial.outcome, trial.found.get(INSTRUMENT) or {}


def _with_grid(
    bundle: Bundle,
    trials: Trials,
    made: Recompiles,
    options: Mapping[str, Any],
    *,
    limits: Sequence[int],
    accumulated: Sequence[int],
    tell: Callable[[str], None],
) -> Recompiles:
    """The same under every limit, unless there was nothing to repeat."""
    if made.count is None:
        return made
    done: list[Cell] = []

    def heard(cell: Cell) -> None:
        done.append(cell)
        tell(f"{len(done)} settings of the grid are known")

    tell("repeating the sequence under other limits")
    cells = grid(
        bundle, trials, limits=limits or LIMITS, accumulated=accumulated, options=options, heard=heard
    )
    return replace(made, grid=cells)


def _with_remedies(
    bundle: Bundle,
    trials: Trials,
    made: Recompiles,
    options: Mapping[str, Any],
    tell: Callable[[str], None],
) -> Recompiles:
    """The same with what may help, if anything was compiled again."""
    if made.count is None or not made.again:
        return made

    def heard(ended: int, of: int) -> None:
        tell(f"{ended} of {of} remedies are tried")

    tell("trying remedies")
    found, tried = prove(
        bundle, trials, made.causes, made.count, options=options, heard=heard, plain=made.outcome
    )
    return replace(made, remedies=found, tried=tried)


def _made(bundle: Bundle, outcome: Outcome, found: Mapping[str, Any]) -> Recompiles:
    calls = made_calls(outcome, found)
    return Recompiles(
        bundle=str(bundle.path),
        function=outcome.function,
        outcome=outcome,
        torch=found.get("torch", ""),
        count=count(outcome.calls) if calls else None,
        calls=calls,
        causes=grouping.group(calls),
        notes=tuple(f"not known: {one}" for one in found.get("unknown", ())),
    )


def made_calls(outcome: Outcome, found: Mapping[str, Any]) -> tuple[Call, ...]:
    """The calls of a replay, with what the instrument `recompiles` has found of them."""
    makers = {one.compile_id: number for number, one in enumerate(outcome.calls) if one.fate == "compiled"}
    refused = found.get("refused", {})
    return tuple(
        Call(
            number=number,
            fate=one.fate,
            compile_id=one.compile_id,
            seconds=one.seconds,
            limit=one.limit,
            refusals=tuple(_refusal(each, makers) for each in refused.get(one.compile_id, ()))
            if one.compile_id
            else (),
            error=one.error,
            recorded=one.recorded,
        )
        for number, one in enumerate(outcome.calls)
    )


def _refusal(told: Mapping[str, Any], makers: Mapping[str, int]) -> Refusal:
    compile_id = told["compile_id"]
    differences = dict.fromkeys(_difference(one) for one in told["failed"])
    return Refusal(compile_id, makers.get(compile_id, -1), tuple(differences), told["note"])


def _difference(told: Mapping[str, Any]) -> Difference:
    place, was, now = told["place"], told["was"], told["now"]
    cause = causes.classify(told["kind"], told["aspect"], told["source"], was, now)
    types = cause == "type" and was and now
    return Difference(
        cause=cause,
        guard=told["guard"],
        source=told["source"],
        expected=was if types else told["expected"],
        seen=now if types else told["seen"],
        dimension=_dimension(told),
        place=None if place is None else UserFrame(**place),
    )


def _dimension(told: Mapping[str, Any]) -> int | None:
    """Of a size or a stride; of a condition on a size, that which it speaks of."""
    known: int | None = told["dimension"]
    if known is not None:
        return known
    head, _, number = told["source"].removesuffix("]").rpartition("[")
    return int(number) if head.endswith(("size()", "stride()")) and number.isdigit() else None
