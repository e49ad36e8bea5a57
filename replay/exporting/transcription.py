"""The instrument behind `export`: writes the loaded frame down as a program, before it is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from replay.exporting.frames import transcribe
from replay.exporting.transcript import RefusedError
from replay.recording import Outcome
from replay.replayer.instruments import Instrument
from replay.replayer.preparation import Prepared
from replay.replayer.seen import Seen
from replay.replayer.task import Task
from replay.torch_adapter import features, state
from replay.torch_adapter.keyed import Keys


class Transcribing(Instrument):
    """One program of the frame by shape, and one with exact values."""

    def __init__(self) -> None:
        self._keys = Keys()
        self._programs: list[dict[str, Any]] = []
        self._refused = ""

    def before(self, task: Task) -> None:
        """Have the tensors that are loaded tell their keys."""
        task.builder = self._keys.builder

    @contextmanager
    def around(self, prepared: Prepared, seen: Seen) -> Iterator[None]:
        """Write the frame down while nothing of it has run."""
        with ExitStack() as stack:
            torch = features.module("torch")
            stack.enter_context(state.applied({}))  # constructors are tried as in a fresh process
            if prepared.task.manifest.state.get("default_device") is not None:
                stack.enter_context(torch.device("cpu"))
            try:
                for exact in (False, True):
                    program = asdict(transcribe(prepared, self._keys, exact=exact))
                    if program not in self._programs:
                        self._programs.append(program)
            except RefusedError as refused:
                self._refused = str(refused)
        yield

    def found(self, outcome: Outcome) -> dict[str, Any]:
        """Plain data: `programs`, of which a later one has more values; `refused`: why there is none."""
        return {"programs": self._programs, "refused": "" if self._programs else self._refused}
