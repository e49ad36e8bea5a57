"""The rungs: which replays are made, from no compiler at all to the whole of it, and what came of each.

Decides nothing: that is `replay.diagnosis.verdict`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from replay.errors import UsageError
from replay.findings.triage import Rung
from replay.recording import Manifest
from replay.replayer import Trial, Trials

UNCOMPILED = "uncompiled"

STANDARD = (UNCOMPILED, "eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
"""Each does what the one before it does, and more."""

_CALLED = "compile"  # CompileInfo.entry: a compiled function was called

Heard = Callable[[Rung], None]
"""Hears of each rung as it ends."""


def plan(manifest: Manifest, chosen: Sequence[str] = (), *, compare: bool = False) -> list[Rung]:
    """The rungs to climb, lowest first; none of them was run yet (status "refused", without a reason).

    `chosen`: backends in place of the usual ones; "+NAME" is added to them. `compare`: each holds its numbers against
    uncompiled code. UsageError for an empty name.
    """
    names = [name for name in chosen if not name.startswith("+")]
    rungs = [] if names else _usual(manifest)
    names += [name.removeprefix("+") for name in chosen if name.startswith("+")]
    if not all(names):
        raise UsageError("--backend: an empty name; give one that torch.compile accepts, such as eager")
    rungs += [_rung(manifest, name) for name in names]
    rungs = [_compared(rung) for rung in rungs] if compare else rungs
    return sorted({rung.name: rung for rung in rungs}.values(), key=height)


def height(rung: Rung) -> tuple[int, bool]:
    """How high a rung is: a standard one in its order, any other above them."""
    at = STANDARD.index(rung.backend) if rung.backend in STANDARD and not is_entry(rung) else len(STANDARD)
    return at, bool(rung.how)


def is_entry(rung: Rung) -> bool:
    """Whether the rung goes into the compiler by the recorded way, which is no call of a compiled function."""
    return bool(rung.how) and is_as_recorded(rung)


def is_as_recorded(rung: Rung) -> bool:
    """Whether the rung names no backend of its own."""
    return rung.options.get("backend", rung.backend) is None


def backward(manifest: Manifest) -> Rung | None:
    """The frame and its backward without the compiler, which looks at the backward in any case.

    None where the recording ran it already, or nothing requires a gradient.
    """
    wanted = any(spec.requires_grad for spec in manifest.tensors.values())
    if manifest.compile.backward or not wanted:
        return None
    return _unrun(UNCOMPILED, "backward", {"backend": UNCOMPILED, "backward": True})


def over_fakes() -> Rung:
    """The frame without the compiler and without the device: operations refuse their inputs there as well."""
    return _unrun(UNCOMPILED, "fake", {"backend": UNCOMPILED, "fake": True})


def climb(trials: Trials, rungs: Sequence[Rung], heard: Heard | None = None) -> list[Rung]:
    """Run the rungs side by side, the highest first: it takes longest. The same rungs, with what came of them."""
    order = sorted(range(len(rungs)), key=lambda at: height(rungs[at]), reverse=True)
    asked = [Trial(rungs[at].options) for at in order]

    def tell(position: int, trial: Trial) -> None:
        if heard is not None:
            heard(result(rungs[order[position]], trial))

    done = dict(zip(order, trials.run(asked, tell), strict=True))
    return [result(rung, done[at]) for at, rung in enumerate(rungs)]


def result(rung: Rung, trial: Trial) -> Rung:
    """The rung with the outcome of its trial."""
    outcome = trial.outcome
    if outcome is None:
        return _unrun(rung.backend, rung.how, rung.options, refused=trial.refused)
    return Rung(
        backend=rung.backend,
        how=rung.how,
        options=rung.options,
        status=outcome.status,
        error=outcome.error,
        seconds=outcome.seconds.get("total", 0.0),
        graphs=sum(frame.graphs for frame in outcome.frames),
        breaks=sum(frame.graph_breaks for frame in outcome.frames),
        difference=outcome.difference,
        reason=outcome.reason,
        missing=outcome.missing,
        notes=outcome.notes,
        drift=outcome.drift,
    )


def _usual(manifest: Manifest) -> list[Rung]:
    """The standard rungs, and the recorded replay where that is none of them."""
    rungs = [_rung(manifest, name) for name in STANDARD]
    compiled = manifest.compile
    if compiled.entry != _CALLED:
        return [*rungs, _unrun(compiled.backend, compiled.entry, {"backend": None})]
    return rungs if compiled.backend in STANDARD else [*rungs, _rung(manifest, compiled.backend)]


def _rung(manifest: Manifest, name: str) -> Rung:
    """The recorded backend is replayed as recorded: a name would not find one of the user's own.

    Where the program went into the compiler otherwise than by a compiled function's call, that is a rung of its own.
    """
    compiled = manifest.compile
    recorded = name == compiled.backend and compiled.entry == _CALLED
    return _unrun(name, "", {"backend": None if recorded else name})


def _compared(rung: Rung) -> Rung:
    if rung.backend == UNCOMPILED:
        return rung
    return replace(rung, options={**rung.options, "compare": True})


def _unrun(backend: str, how: str, options: Mapping[str, Any], refused: str = "") -> Rung:
    return Rung(backend=backend, status="refused", how=how, options=options, refused=refused)
