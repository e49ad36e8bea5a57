"""The instrument "bisect": before the frame is replayed as usual, which pass or lowering makes it fail.

Each step of torch's search is a whole replay of its own in this process: fresh values, fresh caches, the same judgement
as ever. The search itself lives in `replay.torch_adapter.bisecting`.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from replay.errors import ReplayError
from replay.recording import Outcome
from replay.replayer.instruments import Instrument
from replay.replayer.task import Task
from replay.torch_adapter import bisecting

NAME = "bisect"
"""Under which a request names this instrument; its steps do without it."""


class Bisection(Instrument):
    """`backend`: that fails. `wanted`: the type of what it raises. `budget`: seconds after which no step begins.

    `otherwise`: the type of what is raised also where the backend is not at fault; empty where nothing is.
    """

    def __init__(self, *, backend: str, wanted: str, otherwise: str, budget: float) -> None:
        self._backend, self._wanted, self._otherwise, self._budget = backend, wanted, otherwise, budget
        self._steps = self._others = 0
        self._finding: dict[str, Any] = {}

    def before(self, task: Task) -> None:
        """Search, with nothing of the frame loaded yet."""
        begun = time.perf_counter()
        found = self._search(task, begun)
        if found is None:
            self._finding["gave_up"] = "the search ended without a failure"
        else:
            self._finding.update(asdict(found))
            self._finding["gave_up"] = self._finding.pop("stopped")
        self._finding.update(steps=self._steps, others=self._others, seconds=time.perf_counter() - begun)

    def found(self, outcome: Outcome) -> dict[str, Any]:
        """The fields of `replay.findings.triage.Bisected`."""
        return {"backend": self._backend, **self._finding}

    def _search(self, task: Task, begun: float) -> bisecting.Found | None:
        if task.place.without_cuda:
            # Fake tensors and the CPU take other ways through Inductor than the device does.
            return bisecting.Found(self._backend, stopped="the recording's device is not here")

        def passes() -> bool:
            if time.perf_counter() - begun > self._budget:
                raise bisecting.StoppedError(f"{self._budget:g} s were over after {self._steps} replays")
            return self._passes(task)

        try:
            return bisecting.bisect(passes, self._backend)
        except ReplayError as error:
            return bisecting.Found(self._backend, stopped=str(error))
        except (RuntimeError, AssertionError, ValueError, OSError) as error:
            # torch's search raises these where the failure comes and goes, or its files are gone
            return bisecting.Found(self._backend, stopped=f"torch's bisector: {error}")

    def _passes(self, task: Task) -> bool:
        from replay.replayer import session

        self._steps += 1
        config = {**task.request["config"], **bisecting.config()}
        others = {name: given for name, given in task.request["instruments"].items() if name != NAME}
        outcome, _ = session.replay({**task.request, "instruments": others, "config": config})
        error = outcome.error
        kind = "" if error is None else error.inner_type or error.type
        if kind and self._otherwise not in ("", self._wanted) and kind == self._otherwise:
            return True
        self._others += kind not in ("", self._wanted)
        return outcome.status == "passed"
