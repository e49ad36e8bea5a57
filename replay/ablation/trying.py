"""The trials of an ablation: the frame replayed without some of its settings, each time in a process of its own."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from replay.ablation.search import minimise
from replay.bundle import Bundle, load
from replay.errors import ReplayError
from replay.findings.ablation import Ablation, Setting
from replay.plain import from_plain
from replay.recording import Outcome
from replay.replayer import Trial, Trials, settings
from replay.replayer.launch import TIMEOUT

Heard = Callable[[int, int], None]
"""Told how many trials have ended, and among how many settings the needed ones are still looked for."""

REFUSED = "refused"
"""In place of a status: the trial could not be run, or its process ended before it compiled anything."""


def ablate(
    bundle: Bundle | str | os.PathLike[str],
    *,
    jobs: int | None = None,
    timeout: float | None = TIMEOUT,
    heard: Heard | None = None,
    trust: bool | None = None,
    sandbox: bool | None = None,
    **options: Any,
) -> Ablation:
    """Find which of the recorded settings the failure of a bundle needs.

    The settings are config values, torch.compile's arguments, global state, environment variables, earlier calls and
    the backward; see `replay.replayer.settings`. They are removed by halves. A trial fails if its status is
    "reproduced". The result is 1-minimal: without any one of the needed settings the failure does not come.

    `options`: as `run` takes them; what they choose is fixed, and so is what `without` leaves out. `jobs`: trials side
    by side; None: as many as there are processors. `timeout`: seconds for each trial. `trust`, `sandbox`: as `run`
    takes them.

    Raises BundleError for an unreadable file, UsageError for an option that cannot be honoured, ReplayError if not
    even the replay with all settings can be run.
    """
    for name in ("isolate", "pdb", "verbose"):
        if name in options:
            raise TypeError(f"ablate() has no option {name!r}: each trial is a process of its own")
    opened = bundle if isinstance(bundle, Bundle) else load(bundle)
    try:
        with Trials(opened, jobs=jobs, timeout=timeout, trust=trust, sandbox=sandbox) as trials:
            return _Search(opened, trials, options, heard or (lambda trials, left: None)).run()
    finally:
        if not isinstance(bundle, Bundle):
            opened.close()


class _Search:
    """One ablation: what is asked of every trial, and what is known by now."""

    def __init__(self, bundle: Bundle, trials: Trials, options: Mapping[str, Any], heard: Heard) -> None:
        self.bundle, self.trials, self.heard = bundle, trials, heard
        self.chosen = {name: value for name, value in options.items() if _is_choice(name, value)}
        self.options = dict(options)
        self.left_out = settings.check(bundle.manifest, tuple(self.options.pop("without", ())))
        self.known = settings.names(bundle.manifest)
        self.listed: tuple[Setting, ...] = ()
        self.answers: dict[frozenset[str], bool] = {}
        self.ended: Counter[str] = Counter()
        self.refusals: list[str] = []
        self.count, self.left = 0, len(self.known)
        self.started = time.perf_counter()

    def run(self) -> Ablation:
        """The recording as it is and without any setting; then what lies between."""
        whole, bare = self._run([self._trial(self.known, "settings"), self._trial(())])
        if whole.outcome is None:
            raise ReplayError(whole.refused)
        if whole.outcome.status != "reproduced":
            return self._told(whole.outcome)
        found = whole.found.get("settings", ())
        self.listed = tuple(from_plain(one, Setting) for one in found)
        names = tuple(one.name for one in self.listed)
        self.answers[frozenset(names)] = True
        self.answers[frozenset()] = self._fails(bare)
        if self.answers[frozenset()]:
            return self._told(whole.outcome, needed=())
        needed = minimise(names, self._ask, at_once=self.trials.jobs)
        (again,) = self._run([self._trial(needed)])
        return self._told(whole.outcome, needed=needed, stable=self._fails(again))

    def _ask(self, sets: Sequence[tuple[str, ...]]) -> list[bool]:
        """Whether the failure comes with each of these sets alone; what is known is not tried again."""
        self.left = min(self.left, max(len(names) for names in sets) + 1)
        new = list(dict.fromkeys(one for one in sets if frozenset(one) not in self.answers))
        for names, trial in zip(new, self._run([self._trial(one) for one in new]), strict=True):
            self.answers[frozenset(names)] = self._fails(trial)
        return [self.answers[frozenset(names)] for names in sets]

    def _trial(self, kept: Sequence[str], *instruments: str) -> Trial:
        """A replay with these settings and no others. An environment variable that is not kept is not set at all."""
        without = [name for name in self.known if name not in kept]
        return Trial(
            options={**self.options, "without": tuple(dict.fromkeys((*self.left_out, *without)))},
            instruments={name: {} for name in instruments},
        )

    def _run(self, trials: Sequence[Trial]) -> list[Trial]:
        def ended(position: int, trial: Trial) -> None:
            self.count += 1
            self.heard(self.count, self.left)

        return self.trials.run(trials, ended)

    def _fails(self, trial: Trial) -> bool:
        status = REFUSED if trial.outcome is None else trial.outcome.status
        self.ended[status] += 1
        if trial.outcome is None:
            self.refusals.append(trial.refused)
        return status == "reproduced"

    def _told(self, outcome: Outcome, *, needed: Sequence[str] = (), stable: bool = True) -> Ablation:
        return Ablation(
            bundle=str(self.bundle.path),
            outcome=outcome,
            needed=tuple(one for one in self.listed if one.name in needed),
            not_needed=tuple(one for one in self.listed if one.name not in needed),
            stable=stable,
            trials=self.count,
            answers=dict(self.ended),
            options=self.chosen,
            seconds=time.perf_counter() - self.started,
            notes=self._notes(),
        )

    def _notes(self) -> tuple[str, ...]:
        if not self.refusals:
            return ()
        first = self.refusals[0].splitlines()[0]
        return (f"{len(self.refusals)} of the trials could not be run, and count as not failing: {first}",)


def _is_choice(name: str, value: Any) -> bool:
    """Whether an option says something; a flag says nothing where it is off."""
    return value is not None and value not in ((), {}) and not (name in ("compare", "fake") and not value)
