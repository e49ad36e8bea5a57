"""The verdict in words: one sentence, and what a reader of it should know besides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.diagnosis.ladder import UNCOMPILED
from replay.diagnosis.likeness import root_type
from replay.diagnosis.verdict import Verdict, is_ended
from replay.findings.triage import Bisected, Fault, Rung
from replay.recording import DIED, ErrorInfo, Manifest, UserFrame, made_up

_LAYERS: dict[Fault, str] = {
    "dynamo": "TorchDynamo",
    "aot_autograd": "AOTAutograd",
    "decompositions": "decompositions or partitioner",
    "inductor_lowering": "Inductor lowering",
    "inductor": "Inductor",
    "cpp_compiler": "the C++ compiler, on what Inductor generated",
    "triton_compiler": "the Triton compiler",
    "recompile_limit": "TorchDynamo",
    "recompile": "TorchDynamo",
    "graph_break": "TorchDynamo",
    "user_code": "your own code",
}
_OF_RUNG = {
    "eager": "TorchDynamo",
    "aot_eager": "AOTAutograd",
    "aot_eager_decomp_partition": "decompositions or partitioner",
    "inductor": "Inductor",
}
_EVENTS = {
    "failure": "failure",
    "graph_break": "graph break",
    "recompile": "recompilation",
    "accuracy": "deviation",
    "success": "success",
}


def layer(manifest: Manifest, verdict: Verdict, bisected: Bisected | None) -> str:
    """What is at fault, for people; empty where nothing is, or nobody knows."""
    rung, fault = verdict.rung, verdict.fault
    if fault == "backend" and rung is not None:
        return _backend(manifest, rung)
    if fault == "numerics" and rung is not None:
        name = _OF_RUNG.get(rung.backend) or _backend(manifest, rung)
        lowered = bisected is not None and bisected.subsystem == "lowerings"
        return f"{name} lowering{_of(verdict.operator)}" if lowered else name
    name = _LAYERS.get(fault, "")
    return name + _of(verdict.operator) if fault == "inductor_lowering" else name


def sentence(manifest: Manifest, verdict: Verdict, bisected: Bisected | None) -> str:
    """The verdict, in one line."""
    if verdict.rung is None:
        return _nothing(manifest, verdict)
    text = _told(manifest, verdict, verdict.rung, bisected)
    return (
        text
        if verdict.recorded or manifest.event == "success"
        else f"not the recorded {_event(manifest)}, but another failure: {text}"
    )


def notes(
    manifest: Manifest, verdict: Verdict, rungs: Sequence[Rung], bisected: Bisected | None
) -> Iterator[str]:
    """What bears on the verdict and is not in the sentence."""
    uncompiled = next((rung for rung in rungs if rung.name == UNCOMPILED), None)
    if uncompiled is not None and verdict.rung is not uncompiled and uncompiled.status == "different":
        yield f"uncompiled code fails as well, otherwise: {_called(uncompiled.error)}{_at(uncompiled.error)}"
    for lack, names in _lacking(verdict.untold).items():
        yield f"{_list(names)} could not be tried here: {lack}"
    spared = _spared(verdict, rungs)
    if spared:
        yield f"passes all the same under {_list(spared)}"
    found, shown = made_up(manifest.storages), verdict.rung
    if found and (shown is None or not verdict.recorded or _is_another(manifest, shown)):
        yield f"{len(found)} tensor storage{'s' * (len(found) > 1)} of the bundle hold made-up values"
    drift = next((one for rung in rungs for one in rung.drift if one.name == "torch"), None)
    if drift is not None and verdict.fault == "none":
        yield f"recorded with torch {drift.recorded}; this is torch {drift.here}"
    if bisected is not None and bisected.gave_up:
        yield f"not bisected to the end: {bisected.gave_up}"
    elif bisected is not None and bisected.others:
        yield f"{bisected.others} of {bisected.steps} replays of the bisection failed otherwise than the frame does"


def _lacking(untold: Sequence[Rung]) -> dict[str, list[str]]:
    """Why rungs could not be run, each reason once."""
    found: dict[str, list[str]] = {}
    for rung in untold:
        found.setdefault(_lack(rung), []).append(rung.name)
    return found


def _spared(verdict: Verdict, rungs: Sequence[Rung]) -> list[str]:
    """Rungs that do more than the one at fault, and pass. Without the backward they were not put to that test."""
    if verdict.rung is None or verdict.rung.how == "backward":
        return []
    above = rungs[rungs.index(verdict.rung) + 1 :] if verdict.rung in rungs else ()
    return [rung.name for rung in above if rung.status == "passed"]


def _told(manifest: Manifest, verdict: Verdict, rung: Rung, bisected: Bisected | None) -> str:
    fault, where, error = verdict.fault, _in(verdict.place), rung.error
    name = layer(manifest, verdict, bisected)
    if fault == "user_code":
        return _own(manifest, rung, verdict.place)
    if fault == "recompile":
        return f"TorchDynamo compiles the frame again, which is no failure: {_guard(rung.reason)}"
    if fault == "graph_break":
        return f"TorchDynamo breaks the graph{where}, which is no failure: {_called(error)}"
    if fault == "recompile_limit":
        return f"TorchDynamo reaches its limit of recompilations{where}: {_called(error)}; {_below(verdict)}"
    if fault == "unknown":
        return f"cannot be told here: {_called(error)}{where} under {rung.name}; {_doubt(verdict)}"
    if fault == "numerics":
        return f"numerics of {name}{_bisected(bisected)}: {_deviation(rung)}{where}; {_below(verdict)}"
    return f"{name}{_bisected(bisected)}: {_called(error)}{where}; {_below(verdict)}"


def _own(manifest: Manifest, rung: Rung, place: UserFrame | None) -> str:
    what = "its backward fails" if rung.how == "backward" else "fails"
    how = ", over fake tensors" if rung.how == "fake" else ""
    where = "" if place is None else f", {place.file}:{place.line}"
    text = f"{what} without torch.compile as well{how}: look at your own code{where}"
    if not _is_another(manifest, rung):
        return text
    return f"{text} (its error is another one: {_called(rung.error)}; recorded: {_called(manifest.error)})"


def _is_another(manifest: Manifest, rung: Rung) -> bool:
    recorded, here = manifest.error, rung.error
    return recorded is not None and here is not None and root_type(recorded) != root_type(here)


def _nothing(manifest: Manifest, verdict: Verdict) -> str:
    """Where no rung shows a failure."""
    untold = verdict.untold
    if verdict.fault == "unknown":
        lacks = f"{untold[0].name} could not be tried: {_lack(untold[0])}" if untold else "nothing was tried"
        passed = f"; nothing fails up to {verdict.below.name}" if verdict.below is not None else ""
        return f"cannot be told here: {lacks}{passed}"
    if manifest.event == "success":
        return "nothing fails here, as when it was recorded"
    recorded = f" ({_called(manifest.error)})" if manifest.error is not None else ""
    return f"nothing fails here: the recorded {_event(manifest)}{recorded} does not happen under any backend tried"


def _below(verdict: Verdict) -> str:
    """What does not show it, just below; or that this is not known."""
    text = ""
    if verdict.below is not None:
        rung = verdict.below
        under = "uncompiled code" if rung.name == UNCOMPILED else f"under {rung.name} it"
        text = f"{under} {'passes' if rung.status == 'passed' else 'fails otherwise'}"
    return text or _doubt(verdict)


def _doubt(verdict: Verdict) -> str:
    if not verdict.untold:
        return "no lower backend was tried"
    return f"{verdict.untold[0].name} could not be tried here"


def _bisected(found: Bisected | None) -> str:
    if found is None or found.subsystem is None:
        return ""
    what = f", {found.what}" if found.what and found.what != found.subsystem else ""
    number = f", number {found.number}{what}" if found.number is not None and not found.gave_up else ""
    return f" (bisected: {found.subsystem}{number})"


def _deviation(rung: Rung) -> str:
    found = rung.difference
    if found is None:
        return _called(rung.error)
    return f"{found.where} is off by {found.error:.3g}, where {found.tolerance:.3g} is allowed"


def _called(error: ErrorInfo | None) -> str:
    """A failure's name: the exception's, and torch's name for a graph break."""
    if error is None:
        return "no error"
    if error.type == DIED:
        return "the process died"
    if is_ended(error):
        return error.message.rpartition(": ")[2]
    return f"{root_type(error)}, {_one_line(error.gb_type)}" if error.gb_type else root_type(error)


def _in(place: UserFrame | None) -> str:
    return "" if place is None else f" in {place.file}:{place.line}"


def _at(error: ErrorInfo | None) -> str:
    return _in(error.user_frames[-1]) if error is not None and error.user_frames else ""


def _lack(rung: Rung) -> str:
    """Why a rung could not be run."""
    if is_ended(rung.error):
        return f"its process was ended: {_called(rung.error)}"
    if rung.missing:
        first = rung.missing[0]
        return f"{first.name}: {first.reason}" if first.reason else first.name
    return _one_line(rung.refused) or "it was not run"


def _backend(manifest: Manifest, rung: Rung) -> str:
    own = rung.backend == manifest.compile.backend and manifest.compile.backend_kind == "shipped"
    return f"{'your own' if own else 'the'} backend {rung.backend}"


def _event(manifest: Manifest) -> str:
    return _EVENTS[manifest.event]


def _of(operator: str) -> str:
    return f" of {operator}" if operator else ""


def _guard(reason: str) -> str:
    """The guard that failed, of torch's text; the line that made it comes after two blanks and a #."""
    return _one_line(next(iter(reason.splitlines()), "").partition("  #")[0])


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
