"""Triage: climb the ladder, look again where it leaves a doubt, decide."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from replay.bundle import Bundle, load
from replay.diagnosis import bisection, ladder, sentences, verdict
from replay.diagnosis.verdict import Verdict
from replay.errors import UsageError
from replay.findings.triage import Bisected, Rung, Triage
from replay.recording import Manifest
from replay.replayer import Trials

TIMEOUT = 1800.0
"""Seconds for each replay, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a triage is."""

    rungs: tuple[Rung, ...]  # that have ended, in the order in which they did
    planned: int  # of them all
    bisecting: bool = False


def triage(
    bundle: Bundle | str | os.PathLike[str],
    *,
    backends: Sequence[str] = (),
    timeout: float | None = TIMEOUT,
    jobs: int | None = None,
    bisect: bool = True,
    compare: bool | None = None,
    heard: Callable[[Progress], None] | None = None,
    trust: bool | None = None,
    sandbox: bool | None = None,
) -> Triage:
    """Say which part of torch.compile is at fault for what a bundle recorded, or that the program is.

    The frame is replayed without compiling and under one backend after the other, each in a process of its own.
    `backends`: those instead of the usual ones; "+NAME": added to them. `timeout`: seconds for each replay; None or 0:
    no limit. `jobs`: how many at a time; None: as many as there are processors. `bisect`: go on to the pass or the
    lowering of Inductor. `compare`: hold the numbers of every replay against uncompiled code, as `run` does; None: only
    where the recording is of a success. `heard`: called whenever a replay ends, from this thread. `trust`,
    `sandbox`: as `replay.run` takes them.

    A replay that fails to start, hangs, crashes or runs out of memory is a row of the result. Raises BundleError for an
    unreadable file, UsageError for an argument that cannot be honoured. Prints nothing.
    """
    if timeout is not None and timeout < 0:
        raise UsageError(f"timeout {timeout:g}: must be a number of seconds, or 0 for no limit")
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs {jobs}: must be at least 1")
    opened = bundle if isinstance(bundle, Bundle) else load(bundle)
    try:
        if compare is None:
            compare = opened.manifest.event == "success"
        planned = ladder.plan(opened.manifest, backends, compare=compare)
        with Trials(opened, jobs=jobs, timeout=timeout, trust=trust, sandbox=sandbox) as trials:
            return _Climb(opened, trials, heard).run(planned, bisect=bisect)
    finally:
        if not isinstance(bundle, Bundle):
            opened.close()


class _Climb:
    """One triage while it goes on."""

    def __init__(self, bundle: Bundle, trials: Trials, heard: Callable[[Progress], None] | None) -> None:
        self._bundle, self._trials, self._heard = bundle, trials, heard
        self._ended: list[Rung] = []
        self._planned = 0

    @property
    def _manifest(self) -> Manifest:
        return self._bundle.manifest

    def run(self, planned: Sequence[Rung], *, bisect: bool) -> Triage:
        begun = time.perf_counter()
        rungs = self._climb(planned)
        found = verdict.decide(self._manifest, rungs)
        if any(rung.backend == ladder.UNCOMPILED for rung in rungs):
            rungs += self._climb(_doubts(self._manifest, found))
            found = verdict.decide(self._manifest, rungs)
        bisected = None
        if bisect and found.rung is not None and bisection.applies(found):
            self._tell(bisecting=True)
            bisected = bisection.search(self._trials, found.rung, found.below)
            found = verdict.decide(self._manifest, rungs, bisected)
        return self._concluded(found, rungs, bisected, time.perf_counter() - begun)

    def _climb(self, rungs: Sequence[Rung]) -> list[Rung]:
        self._planned += len(rungs)
        self._tell()

        def ended(rung: Rung) -> None:
            self._ended.append(rung)
            self._tell()

        return ladder.climb(self._trials, rungs, ended)

    def _tell(self, *, bisecting: bool = False) -> None:
        if self._heard is not None:
            self._heard(Progress(tuple(self._ended), self._planned, bisecting))

    def _concluded(
        self, found: Verdict, rungs: Sequence[Rung], bisected: Bisected | None, seconds: float
    ) -> Triage:
        manifest = self._manifest
        ordered = tuple(sorted(rungs, key=ladder.height))
        return Triage(
            bundle=str(self._bundle.path),
            function=manifest.frame.function,
            event=manifest.event,
            fault=found.fault,
            sentence=sentences.sentence(manifest, found, bisected),
            layer=sentences.layer(manifest, found, bisected),
            rung=None if found.rung is None else found.rung.name,
            place=found.place,
            rungs=ordered,
            bisected=bisected,
            notes=tuple(sentences.notes(manifest, found, ordered, bisected)),
            drift=next((rung.drift for rung in ordered if rung.drift), ()),
            recorded_error=manifest.error,
            seconds=seconds,
        )


def _doubts(manifest: Manifest, found: Verdict) -> list[Rung]:
    """Second looks at uncompiled code, where it was not given the same chance to fail."""
    rung = found.rung
    if rung is None or rung.error is None or rung.backend == ladder.UNCOMPILED:
        return []
    looks: list[Rung] = []
    if any(one.backend == ladder.UNCOMPILED and one.status == "missing" for one in found.untold):
        looks.append(ladder.over_fakes())
    backward = ladder.backward(manifest)
    if backward is not None and rung.error.stage in ("aot_autograd", "backward"):
        looks.append(backward)
    return looks
