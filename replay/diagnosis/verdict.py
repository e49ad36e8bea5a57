"""From the rungs to what is at fault. Pure: no replay is made here, and nothing is put into words.

What counts is the lowest rung that shows the failure, since each rung does what the one below it does and more. A rung
that could not be run to its end (a package or a device is missing, time or memory was short) proves nothing. Where the
one just below is such a rung, the stage in which torch raised the error decides; where that says nothing either, the
fault is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from replay.diagnosis.ladder import STANDARD, UNCOMPILED, height, is_as_recorded, is_entry
from replay.diagnosis.likeness import alike, of_operation, root_type
from replay.findings.triage import Bisected, Fault, Rung
from replay.recording import ErrorInfo, Manifest, UserFrame

_OF_RUNG: dict[str, Fault] = {
    "eager": "dynamo",
    "aot_eager": "aot_autograd",
    "aot_eager_decomp_partition": "decompositions",
}
_TARGET = re.compile(r"^\s*target: (\S+)", re.MULTILINE)
_ENDED = "the replaying process ended"
"""How `replay.replayer` begins the message of an error where the process did not live to tell."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is at fault, and what shows it."""

    fault: Fault
    rung: Rung | None = None  # the lowest that shows what is judged; None: none does
    recorded: bool = True  # what is judged is the recorded failure
    below: Rung | None = None  # the highest under it that does not show it
    untold: tuple[Rung, ...] = ()  # rungs that could have said more
    operator: str = ""  # that Inductor lowers
    place: UserFrame | None = None


def decide(manifest: Manifest, rungs: Sequence[Rung], bisected: Bisected | None = None) -> Verdict:
    """The verdict of the rungs that were run, in any order."""
    rungs = sorted(rungs, key=height)
    shown = [rung for rung in rungs if shows(manifest, rung)]
    judged = shown or [rung for rung in rungs if rung.status == "different" and _tells(rung)]
    if not judged:
        return _nothing(manifest, rungs)
    first = judged[0]
    lower = [rung for rung in rungs if height(rung) < height(first) and not _is_probe(rung)]
    told = [rung for rung in lower if _tells(rung)]
    verdict = Verdict(
        fault=_fault(first, {rung.backend for rung in told}),
        rung=first,
        recorded=bool(shown),
        below=told[-1] if told else None,
        untold=tuple(rung for rung in lower if rung not in told),
        operator=_operator(first.error, bisected),
        place=_place(first, bisected),
    )
    return _refined(verdict, bisected)


def shows(manifest: Manifest, rung: Rung) -> bool:
    """Whether the recorded failure happens on this rung, perhaps at another stage and in another wrapping.

    Also where something is missing: an exception of the same type at the same line is no accident. Compiled code that
    fails while it runs words its errors in its own way: uncompiled code that fails on the same values counts in any
    case.
    """
    recorded = manifest.error
    if rung.status == "reproduced" or alike(recorded, rung.error):
        return True
    ran = recorded is not None and recorded.stage == "runtime"
    return ran and rung.name == UNCOMPILED and rung.status == "different" and _tells(rung)


def is_ended(error: ErrorInfo | None) -> bool:
    """Whether the process ended (a crash, the time limit, memory), so that nobody saw an exception."""
    return error is not None and error.message.startswith(_ENDED)


def is_stopped(error: ErrorInfo | None) -> bool:
    """Whether the process was ended by a limit of ours: what it would have come to is not known."""
    return is_ended(error) and error is not None and error.type in ("Timeout", "OutOfMemory")


def recorded_rung(manifest: Manifest, rungs: Sequence[Rung]) -> Rung | None:
    """The rung that replays as recorded, or else the one with the recorded backend."""
    found = [rung for rung in rungs if is_as_recorded(rung)]
    found += [rung for rung in rungs if rung.backend == manifest.compile.backend and not rung.how]
    return found[0] if found else None


def _tells(rung: Rung) -> bool:
    """Whether the rung says something about the recorded failure where it does not show it."""
    return rung.status in ("passed", "different") and not is_stopped(rung.error) and not _is_probe(rung)


def _is_probe(rung: Rung) -> bool:
    """A second look at uncompiled code: it tells only where it shows the very failure."""
    return bool(rung.how) and not is_entry(rung)


def _nothing(manifest: Manifest, rungs: Sequence[Rung]) -> Verdict:
    """Nothing fails, as far as could be told."""
    untold = tuple(rung for rung in rungs if not _tells(rung) and not _is_probe(rung))
    passed = [rung for rung in rungs if rung.status == "passed"]
    recorded = recorded_rung(manifest, rungs)
    decisive = bool(passed) and (recorded is None or recorded.status == "passed")
    return Verdict(
        fault="none" if decisive else "unknown",
        below=passed[-1] if passed else None,
        untold=tuple(
            sorted(untold, key=lambda rung: rung is not recorded)
        ),  # the one that would decide it first
    )


def _fault(first: Rung, told: set[str]) -> Fault:
    """`told`: the backends below that do not show it."""
    error = first.error
    if first.backend == UNCOMPILED:
        return "user_code"
    if error is None:
        return "recompile"
    if error.stage == "graph_break":
        return "graph_break"
    if error.stage == "recompile_limit":
        return "recompile_limit"
    if error.stage == "accuracy":
        return "numerics"
    if error.stage == "dynamo" and not is_ended(error):
        return "unknown" if of_operation(error) and UNCOMPILED not in told else "dynamo"
    if first.backend not in STANDARD and not is_entry(first):
        return "backend" if "eager" in told else "unknown"
    if is_entry(first) or STANDARD[STANDARD.index(first.backend) - 1] not in told:
        return _of_stage(error)
    return _OF_RUNG.get(first.backend) or _of_inductor(error)


def _of_stage(error: ErrorInfo) -> Fault:
    """Where torch raised it, for want of a rung that shows it."""
    if error.stage == "aot_autograd":
        return "aot_autograd"
    return _of_inductor(error) if error.stage == "inductor" else "unknown"


def _of_inductor(error: ErrorInfo) -> Fault:
    """Which part of Inductor, as its exceptions say."""
    kind, inside = root_type(error), error.raised_in or ""
    if kind in ("CppCompileError", "InvalidCxxCompiler"):
        return "cpp_compiler"
    if inside.startswith("triton/") or (error.inner_type or "").startswith("triton."):
        return "triton_compiler"
    if kind == "LoweringException" or "LoweringException" in error.message:
        return "inductor_lowering"
    return "inductor"


def _refined(verdict: Verdict, bisected: Bisected | None) -> Verdict:
    """With what the bisector found: the lowering, where nothing else named a part of Inductor."""
    if bisected is not None and bisected.subsystem == "lowerings" and verdict.fault == "inductor":
        return replace(verdict, fault="inductor_lowering")
    return verdict


def _operator(error: ErrorInfo | None, bisected: Bisected | None) -> str:
    if bisected is not None and bisected.operator:
        return bisected.operator
    found = _TARGET.search(error.message) if error is not None else None
    return found[1] if found else ""


def _place(first: Rung, bisected: Bisected | None) -> UserFrame | None:
    """The line of the program: the one that the numbers or the node came from, else the innermost of the error."""
    if bisected is not None and bisected.place is not None:
        return bisected.place
    if first.difference is not None and first.difference.place is not None:
        file, line, function = first.difference.place
        return UserFrame(file, line, function, "")
    frames = first.error.user_frames if first.error is not None else ()
    return frames[-1] if frames else None
