"""Many replays of one bundle, each in a child process of its own, side by side.

What an analysis asks with: it gets an answer for every trial, never an exception for one of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from replay import isolation
from replay.bundle import Bundle
from replay.errors import ReplayError
from replay.recording import Outcome
from replay.replayer.launch import TIMEOUT, observe


@dataclass(frozen=True, slots=True)
class Trial:
    """One replay to be made, and what came of it once it was."""

    options: Mapping[str, Any] = field(default_factory=dict)  # as `replay.run` takes them
    instruments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    outcome: Outcome | None = None  # None: not run, or refused
    found: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""  # why it could not be run: a backend that is not there, a child that died while loading


class Trials:
    """A place to run trials; leaving it ends whatever still runs.

    `jobs`: how many at a time; None: as many as this process has processors. `timeout`: seconds for each; None or
    0: no limit.
    """

    def __init__(self, bundle: Bundle, *, jobs: int | None = None, timeout: float | None = TIMEOUT) -> None:
        self._bundle, self._timeout = bundle, timeout
        self.jobs = jobs or processors()
        self._threads = ThreadPoolExecutor(self.jobs)

    def __enter__(self) -> Trials:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

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
                self._bundle, trial.instruments, trial.options, timeout=self._timeout, call=isolation.call
            )
        except ReplayError as error:
            return replace(trial, refused=str(error))
        return replace(trial, outcome=observed.outcome, found=observed.found)


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        return os.cpu_count() or 1
