"""Further into a backend: when it makes sense to ask torch's CompilerBisector, and what it answered."""

from __future__ import annotations

from replay.diagnosis.verdict import Verdict, is_ended
from replay.findings.triage import Bisected, Fault, Rung
from replay.plain import from_plain
from replay.replayer import Trial, Trials

BUDGET = 180.0
"""Seconds after which no further step of the search begins."""
LIMIT = 300.0
"""Seconds after which the search is stopped, in the middle of a step too."""

_BACKENDS = ("aot_eager_decomp_partition", "inductor")
"""Those that the bisector can take apart (torch 2.9 to 2.15)."""
_FAULTS: tuple[Fault, ...] = (
    "decompositions",
    "inductor_lowering",
    "inductor",
    "cpp_compiler",
    "triton_compiler",
    "numerics",
)


def applies(verdict: Verdict) -> bool:
    """Whether there is something to search: an exception, or wrong numbers, of a backend that can be taken apart."""
    rung = verdict.rung
    if rung is None or rung.error is None or is_ended(rung.error) or rung.status == "missing":
        return False
    return verdict.fault in _FAULTS and rung.backend in _BACKENDS and verdict.below is not None


def search(trials: Trials, rung: Rung, below: Rung | None = None) -> Bisected:
    """Search in the backend of a rung that fails; a search that ends without a result says why.

    `below`: the rung under it that does not show the failure; a step that ends like that one counts as passed.
    """
    otherwise = "" if below is None else _type(below)
    asked = {"backend": rung.backend, "wanted": _type(rung), "otherwise": otherwise, "budget": BUDGET}
    [trial] = trials.run([Trial(rung.options, {"bisect": asked}, limit=LIMIT)])
    if "bisect" in trial.found:
        return from_plain(trial.found["bisect"], Bisected, strict=False)
    return Bisected(rung.backend, gave_up=_why(trial))


def _type(rung: Rung) -> str:
    return "" if rung.error is None else rung.error.inner_type or rung.error.type


def _why(trial: Trial) -> str:
    if trial.outcome is None:
        return trial.refused
    error = trial.outcome.error
    return "nothing came of it" if error is None else f"{error.type}: {error.message}"
