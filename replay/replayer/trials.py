"""Many replays of one bundle, each in a child process of its own, side by side.

What an analysis asks with: it gets an answer for every trial, never an exception for one of them.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from replay import isolation
from replay.bundle import Bundle
from replay.errors import ReplayError
from replay.recording import Outcome
from replay.replayer.launch import TIMEOUT, observe
from replay.trust import admit

TORCH = 1_000_000_000
"""Bytes that a trial takes with little data."""
COPIES = 4
"""Of the frame's values in one trial: inputs, outputs, gradients, temporary ones. Only a guess for `jobs`."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One replay to be made, and what came of it once it was."""

    options: Mapping[str, Any] = field(default_factory=dict)  # as `replay.run` takes them
    instruments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    limit: float = math.inf  # seconds, where that is less than what the Trials allow
    shared: Sequence[Path] = ()  # directories that outlive it, which it may write to in a sandbox as well
    outcome: Outcome | None = None  # None: not run, or refused
    found: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""  # why it could not be run: a backend that is not there, a child that died while loading


class Trials:
    """A place to run trials; leaving it ends whatever still runs.

    `jobs`: how many at a time; None: as many as there are processors, and room in memory for. `timeout`: seconds for
    each; None or 0: no limit. `fresh`: each in a new Python process, in place of a fork of one that has imported
    torch. A trial with environment variables of its own always gets a new one, and so does one in a sandbox. `trust`,
    `sandbox`: as `run` takes them; UntrustedError as `run`.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        jobs: int | None = None,
        timeout: float | None = TIMEOUT,
        fresh: bool = False,
        trust: bool | None = None,
        sandbox: bool | None = None,
    ) -> None:
        admit(bundle, trust=trust, sandbox=sandbox)  # once for all, before anything starts
        self._trust, self._sandbox = trust, sandbox
        self._bundle, self._timeout, self.fresh = bundle, timeout, fresh
        self.jobs = jobs or min(processors(), _room(bundle))
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(self.jobs)
        self._forks = isolation.ForkServer(
            "replay.replayer.preloading:preload",
            {"path": str(Path(bundle.path).resolve())},
            sound="replay.replayer.preloading:may_fork",
        )

    def __enter__(self) -> Trials:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._forks.close()

    def submit(self, trial: Trial) -> Future[Trial]:
        """Have a trial run when there is room; the future's result is the trial with its outcome."""
        return self._threads.submit(self._run, trial)

    def run(self, trials: Sequence[Trial], heard: Callable[[int, Trial], None] | None = None) -> list[Trial]:
        """Run all; the results in the same order. `heard(position, trial)` is called for each as it ends."""
        waiting = {self.submit(one): at for at, one in enumerate(trials)}
        done: dict[int, Trial] = {}
        for future in as_completed(waiting):
            at = waiting[future]
            done[at] = future.result()
            if heard is not None:
                heard(at, done[at])
        return [done[at] for at in range(len(trials))]

    def _run(self, trial: Trial) -> Trial:
        try:
            observed = observe(
                self._bundle,
                trial.instruments,
                trial.options,
                timeout=min(self._timeout or math.inf, trial.limit),
                call=isolation.call if self.fresh else self._forks.call,
                stop=self._stop,
                trust=self._trust,
                sandbox=self._sandbox,
                shared=trial.shared,
            )
        except ReplayError as error:
            return replace(trial, refused=str(error))
        return replace(trial, outcome=observed.outcome, found=observed.found)


def _room(bundle: Bundle) -> int:
    """How many trials fit into memory side by side, each with a few copies of the frame's values."""
    values = sum(one.nbytes for one in bundle.manifest.storages.values())
    limit = isolation.memory_limit()
    return processors() if limit is None else max(1, limit // (TORCH + COPIES * values))


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        return os.cpu_count() or 1
