"""Is it the recorded failure? From what was seen in a replay to its outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from replay import fingerprint, shipping
from replay.recording import CallOutcome, ErrorInfo, Missing, Outcome, Status, made_up
from replay.replayer import sequence
from replay.replayer.preparation import release, torch_version
from replay.replayer.seen import Seen
from replay.replayer.task import Task


def judge(task: Task, seen: Seen, loaded: shipping.Loaded, seconds: Mapping[str, float]) -> Outcome:
    """The outcome of a replay. `seconds`: load, and run with the compilations in it."""
    match, failed, reason = find_match(task, seen), seen.failures, _recompile(task, seen)
    again = match is not None or reason is not None
    status: Status = "reproduced" if again else "different" if failed else "passed"
    missing = [*loaded.missing]
    if status == "different":
        lacking = _lacking(task, loaded, failed)
        if lacking:
            status, missing = "missing", [*lacking, *(one for one in missing if one not in lacking)]
    if status == "passed":
        task.notes += _made_up(task)
    error = match or (failed[0] if failed else None)
    compiled = tuple(seen.frames())
    compile_seconds = sum(frame.seconds for frame in compiled)
    return Outcome(
        bundle=str(task.bundle.path),
        status=status,
        backend=task.backend,
        function=task.manifest.frame.function,
        error=error,
        recorded_error=task.manifest.error,
        frames=compiled,
        seconds={
            "load": seconds["load"],
            "compile": compile_seconds,
            "run": max(0.0, seconds["run"] - compile_seconds),
            "total": time.perf_counter() - task.started,
        },
        drift=tuple(task.drift),
        missing=tuple(missing),
        reason=reason or "",
        recorded_reason=task.manifest.reason,
        difference=seen.differences.get(id(error)),
        notes=tuple(task.notes),
        calls=seen.calls or (),
    )


def lacks(task: Task, what: str) -> Outcome:
    """The outcome of a replay that could not even start."""
    seconds = time.perf_counter() - task.started
    return Outcome(
        bundle=str(task.bundle.path),
        status="missing",
        backend=task.backend,
        function=task.manifest.frame.function,
        error=None,
        recorded_error=task.manifest.error,
        seconds={"load": seconds, "compile": 0.0, "run": 0.0, "total": seconds},
        missing=(Missing(what, "", "needed to replay the frame"), *task.manifest.missing),
    )


def find_match(task: Task, seen: Seen) -> ErrorInfo | None:
    """The failure that is the recorded one, if it happened."""
    recorded = task.manifest.error
    if recorded is None:
        return None
    for error in seen.errors:
        if _is_for_lack(error) and not _is_for_lack(recorded):
            continue
        if _same(task, recorded.fingerprint, error.fingerprint):
            return error
    return None


def _recompile(task: Task, seen: Seen) -> str | None:
    """The reason of the recompilation that is the recorded one, if it happened; of a sequence, if all of them did."""
    if task.manifest.event != "recompile":
        return None
    if seen.calls is not None:
        return _sequence(task, seen.calls)
    found = (why for one, why in seen.recompiles if _same(task, task.manifest.signature, one))
    return next(found, None)


def _sequence(task: Task, calls: Sequence[CallOutcome]) -> str | None:
    asked, other = sequence.missed(task.manifest, calls, lambda one, two: _same(task, one, two))
    task.notes.append(
        f"the sequence of {len(calls)} calls was repeated: {asked - len(other)} of {asked} came to the compiler "
        "again as recorded"
    )
    if other:
        first = sequence.recorded_calls(task.manifest)[other[0]]
        task.notes.append(
            f"the first that did not is call {other[0] + 1} ({first.compile_id}): {calls[other[0]].fate}"
        )
    failed = sum(bool(one.error) for one in calls[:-1])
    if failed:
        task.notes.append(f"{failed} of the earlier calls raised over synthetic values")
    if other or not asked:
        return None
    return next(iter(calls[-1].reasons), task.manifest.reason)


def _same(task: Task, recorded: str, seen: str) -> bool:
    same_torch = release(task.manifest.environment.torch) == release(torch_version())
    return fingerprint.same(recorded, seen, same_torch=same_torch and _goes_the_same_way(task))


def _goes_the_same_way(task: Task) -> bool:
    """Whether the failure is to come through the same functions of torch.

    With another backend an export does not, and what running code goes through is the backend's.
    """
    if task.as_recorded:
        return True
    error = task.manifest.error
    ran = error is not None and error.stage == "runtime"
    return task.manifest.compile.entry == "compile" and not ran


def _made_up(task: Task) -> list[str]:
    """That the recorded failure may depend on values which the bundle does not have; nothing if it has all."""
    found = made_up(task.manifest.storages)
    if not found or task.manifest.error is None or task.request["backend"] is not None:
        return []
    size = sum(found.values()) / 1e6
    what = "1 tensor storage holds" if len(found) == 1 else f"{len(found)} tensor storages hold"
    return [f"{what} made-up values ({size:.1f} MB); the recorded failure may depend on the real ones"]


def _lacking(task: Task, loaded: shipping.Loaded, failed: Sequence[ErrorInfo]) -> list[Missing]:
    """Why another failure than the recorded one may come from what the replay lacks."""
    known = list({one.name: one for one in (*loaded.missing, *task.manifest.missing)}.values())
    lacking = [one for one in known if one.name in loaded.touched]
    left_out = {one.name: one for one in task.manifest.left_out}
    lacking += [
        Missing(name, one.type, shipping.LEFT_OUT) for name, one in left_out.items() if name in loaded.touched
    ]
    lacking += [
        Missing(name, "", "was used and is not in the bundle")
        for name in dict.fromkeys(loaded.touched)
        if name not in {one.name for one in known} | left_out.keys()
    ]
    for error in failed:
        if _is_for_lack(error):
            lacking += [one for one in known if one.name not in {x.name for x in lacking}]
    moved = any(name.startswith("cuda") for name in task.remapped)
    return lacking or task.place.lacking(failed, moved=moved)


def _is_for_lack(error: ErrorInfo) -> bool:
    """Whether an error came of something that the recording or this machine lacks, whatever torch made of it."""
    return "MissingError" in error.message + error.traceback or "<missing " in error.message
