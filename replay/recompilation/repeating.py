"""The sequence of a bundle repeated as it was recorded, and what is found on the way, as data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from replay.bundle import Bundle, load
from replay.errors import UsageError
from replay.findings.recompiles import Call, Difference, Recompiles, Refusal
from replay.recompilation import causes, grouping
from replay.recording import Outcome, UserFrame
from replay.replayer import observe
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
    timeout: float | None = TIMEOUT,
    isolate: bool = True,
    heard: Callable[[str], None] | None = None,
) -> Recompiles:
    """Repeat a recorded sequence of calls and say of each that came to the compiler again what sent it there.

    The arguments are those of `replay.run`; what is not given is as recorded. `heard` is told what is being done. A
    replay that lacks something comes back without calls; its `outcome` has the status "missing". Raises UsageError for
    a bundle that holds no sequence, and what `run` raises.
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
        if heard is not None:
            heard("repeating the sequence")
        observed = observe(opened, {INSTRUMENT: {}}, options, timeout=timeout, isolate=isolate)
        found = observed.found.get(INSTRUMENT) or {}
        return _made(opened, observed.outcome, found, time.perf_counter() - started)
    finally:
        if not isinstance(bundle, Bundle):
            opened.close()


def _check(bundle: Bundle) -> None:
    if bundle.manifest.sequence is None:
        raise UsageError(f"{bundle.path}: this bundle holds no sequence of calls; {HOW}")


def _made(bundle: Bundle, outcome: Outcome, found: Mapping[str, Any], seconds: float) -> Recompiles:
    calls = made_calls(outcome, found)
    return Recompiles(
        bundle=str(bundle.path),
        function=outcome.function,
        outcome=outcome,
        torch=found.get("torch", ""),
        count=grouping.count(calls) if calls else None,
        calls=calls,
        causes=grouping.group(calls),
        notes=tuple(f"not known: {one}" for one in found.get("unknown", ())),
        seconds=seconds,
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
