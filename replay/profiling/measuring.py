"""`profile()`: the frame uncompiled and under each backend, one process after another, each alone on the machine.

What is measured inside a process lives in `replay.replayer.timing`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from replay.bundle import Bundle, load
from replay.errors import UsageError
from replay.findings.profile import Compilation, Hotspot, Measured, Profile, Timing
from replay.plain import from_plain
from replay.profiling import tracing
from replay.recording import made_up
from replay.replayer import Trial, Trials
from replay.replayer.trials import processors

UNCOMPILED = "uncompiled"
BACKENDS = ("eager", "aot_eager", "inductor")
"""What a frame is measured under besides uncompiled and as recorded, unless told otherwise."""
SECONDS = 1.0
MOST = 1000
TIMEOUT = 600.0

Heard = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Asked:
    """How to measure."""

    seconds: float
    most: int
    trace: bool
    options: Mapping[str, Any]  # of the replays


def profile(
    bundle: Bundle | str | os.PathLike[str],
    *,
    backends: Sequence[str] = (),
    backward: bool | None = None,
    device: str | None = None,
    seconds: float = SECONDS,
    repeat: int = MOST,
    trace: str | os.PathLike[str] | None = None,
    timeout: float | None = TIMEOUT,
    heard: Heard | None = None,
    trust: bool | None = None,
    sandbox: bool | None = None,
) -> Profile:
    """Measure how long a bundle's frame takes to compile and to run.

    `backends`: names or `module:attribute`; none: eager, aot_eager, inductor and the recorded one. Uncompiled is always
    measured first. `backward`: differentiate the output too; None: as recorded. `seconds`, `repeat`: a frame is run
    for so long, and so often, at most (five times, if that does not take far longer). `trace`: write a Chrome trace to
    this file (`.json` or `.json.gz`). `timeout`: seconds for each process. `heard(what)` is called ahead of each.
    `trust`, `sandbox`: as `replay.run` takes them.

    A backend under which the frame fails, hangs or crashes is a row with its error. Raises BundleError for an
    unreadable file, UsageError for an argument that makes no sense.
    """
    _check(seconds, repeat, trace)
    path = Path(bundle.path if isinstance(bundle, Bundle) else bundle)
    opened = bundle if isinstance(bundle, Bundle) else load(path)
    busy = _busy()
    asked = _Asked(seconds, repeat, trace is not None, {"backward": backward, "device": device})
    try:
        with Trials(opened, jobs=1, timeout=timeout, trust=trust, sandbox=sandbox) as trials:
            session = _Session(opened, trials, asked, heard or (lambda what: None), notes=busy)
            rows = session.measure_all(_chosen(opened, backends))
        found = _summed_up(opened, session, rows)
    finally:
        if not isinstance(bundle, Bundle):
            opened.close()
    if trace is not None and not session.tracks:
        found = replace(found, notes=(*found.notes, "no trace was written: nothing was measured"))
    elif trace is not None:
        tracing.write(Path(trace), session.tracks)
        found = replace(found, trace=os.fspath(trace))
    return found


def _check(seconds: float, repeat: int, trace: str | os.PathLike[str] | None) -> None:
    if not seconds > 0:
        raise UsageError(f"--seconds {seconds:g}: must be a number of seconds above 0")
    if repeat < 1:
        raise UsageError(f"--repeat {repeat}: must be a whole number of at least 1")
    if trace is not None:
        tracing.check(Path(trace))


def _busy() -> list[str]:
    """That others use the machine, where the platform tells: a run of several threads then takes many times as long."""
    try:
        load, here = os.getloadavg()[0], processors()
    except (AttributeError, OSError):  # not on Windows
        return []
    plural = "" if here == 1 else "s"
    busy = f"the machine was busy before (load {load:.1f}, {here} processor{plural}): times may mislead"
    return [busy] if load > here else []


def _chosen(bundle: Bundle, backends: Sequence[str]) -> list[str]:
    """What to measure, each once, uncompiled first."""
    recorded = bundle.manifest.compile.backend
    return list(dict.fromkeys([UNCOMPILED, *(backends or (*BACKENDS, recorded))]))


def _summed_up(bundle: Bundle, session: _Session, rows: Sequence[Measured]) -> Profile:
    manifest = bundle.manifest
    compared = tuple(_compared(row, rows[0]) for row in rows)
    failed = "" if any(not row.failed for row in rows) else next(reversed(session.statuses.values()), "")
    return Profile(
        bundle=str(bundle.path),
        function=manifest.frame.function,
        recorded=manifest.compile.backend,
        rows=compared,
        notes=tuple(dict.fromkeys((*_invented(bundle), *session.notes))),
        status=failed and session.statuses.get(manifest.compile.backend, failed),
    )


def _compared(row: Measured, base: Measured) -> Measured:
    """With the speed-up over the uncompiled frame, of the medians."""
    found = {}
    for name in ("forward", "backward"):
        here, there = getattr(row, name), getattr(base, name)
        if here is not None and there is not None and row is not base and here.median > 0:
            found[name] = there.median / here.median
    return replace(row, speedup=found)


def _invented(bundle: Bundle) -> list[str]:
    found = made_up(bundle.manifest.storages)
    if not found:
        return []
    what = "storage holds" if len(found) == 1 else "storages hold"
    size = sum(found.values()) / 1e6
    which = "times that depend on values are not the recorded program's"
    return [f"{len(found)} tensor {what} made-up values ({size:.1f} MB): {which}"]


@dataclass(slots=True)
class _Session:
    """One profile while it is made. `tracks` and `notes` grow."""

    bundle: Bundle
    trials: Trials
    asked: _Asked
    heard: Heard
    tracks: list[tracing.Track] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    statuses: dict[str, str] = field(default_factory=dict)  # of the replays that failed, by backend
    device: str | None = None  # instead of the recorded one, which is not here

    def measure_all(self, backends: Sequence[str]) -> list[Measured]:
        """A row for each."""
        return [self.measure(name) for name in backends]

    def measure(self, backend: str) -> Measured:
        """Cold, running, and warm where a cache was there to be filled."""
        with tempfile.TemporaryDirectory(prefix="replay-profile-", ignore_cleanup_errors=True) as caches:
            row = self._replay(backend, caches, "measuring", compiles_only=False)
            if row.cold is None or not _fills_caches(row.cold):
                return row
            again = self._replay(backend, caches, "once more, with caches:", compiles_only=True)
        if again.cold is None:
            why = again.refused or (again.error.message if again.error else "")
            return replace(row, notes=(*row.notes, f"not compiled a second time: {why}"))
        return replace(row, warm=again.cold)

    def _replay(self, backend: str, caches: str, what: str, *, compiles_only: bool) -> Measured:
        self.heard(f"{what} {self.bundle.manifest.frame.function} under {backend}")
        trial = self._run(backend, caches, compiles_only=compiles_only)
        found = trial.found.get("profile") or {}
        if found.get("fake") and self.device is None and self.asked.options["device"] is None:
            self.device = "cpu"
            self.notes.append("the recorded device is not here: everything was measured on the CPU")
            return self._replay(backend, caches, what, compiles_only=compiles_only)
        track = "warm" if compiles_only else "cold"
        self.tracks += tracing.tracks(backend, track, found.get("events", ()))
        return self._row(backend, trial, found)

    def _run(self, backend: str, caches: str, *, compiles_only: bool) -> Trial:
        recorded = backend == self.bundle.manifest.compile.backend
        own = recorded and self.bundle.manifest.compile.entry == "compile"
        options = {
            **self.asked.options,
            "backend": None if own else backend,
            "env": _directories(caches),
        }
        if self.device is not None:
            options["device"] = self.device
        watch = {
            "seconds": self.asked.seconds,
            "most": self.asked.most,
            "compiles_only": compiles_only,
            "trace": self.asked.trace,
        }
        [trial] = self.trials.run([Trial(options, {"profile": watch}, shared=(Path(caches),))])
        return trial

    def _row(self, backend: str, trial: Trial, found: Mapping[str, Any]) -> Measured:
        outcome = trial.outcome
        if outcome is None:
            return Measured(backend, refused=trial.refused)
        failed = "forward" not in found and outcome.status != "passed"
        if failed:
            self.statuses[backend] = outcome.status
        self.notes += outcome.notes
        lacking = "; ".join(f"{one.name}: {one.reason}" for one in outcome.missing)
        return Measured(
            backend=backend,
            load=outcome.seconds.get("load", 0.0),
            cold=_read(found.get("first"), Compilation),
            again=_read(found.get("again"), Compilation),
            forward=_read(found.get("forward"), Timing),
            backward=_read(found.get("backward"), Timing),
            peak=found.get("peak"),
            hotspots=tuple(_read(one, Hotspot) for one in found.get("hotspots", ())),
            error=outcome.error if failed else None,
            refused=f"missing: {lacking}" if failed and outcome.error is None else "",
            notes=tuple(found.get("notes", ())),
        )


def _fills_caches(cold: Compilation) -> bool:
    """Whether a second process may find something: graphs that torch has kept, or kernels that were compiled."""
    return bool(cold.caches) or "compiler" in cold.phases


def _directories(caches: str) -> dict[str, str]:
    """The variables that name them. In the one for temporary files, Inductor keeps C++ headers that it has compiled."""
    names = {
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "TMPDIR": "temporary",
    }
    for folder in names.values():
        os.makedirs(os.path.join(caches, folder), exist_ok=True)
    return {name: os.path.join(caches, folder) for name, folder in names.items()}


def _read(plain: Any, kind: Any) -> Any:
    return None if plain is None else from_plain(plain, kind, strict=False)
