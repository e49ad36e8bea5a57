"""The instrument behind `export`: writes the loaded frame down as a program, before it is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from replay.exporting.frames import BACKWARD, backward_of, transcribe
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
        self._backward: tuple[str, ...] = (BACKWARD,)

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
            except Exception as error:  # noqa: BLE001 - whatever an object of the user's does
                said = next(iter(str(error).splitlines()), "")
                self._refused = f"its values: writing them down raised {type(error).__name__}: {said}"
        yield

    def returned(self, output: Any) -> None:
        """What the frame gives decides how it is differentiated."""
        self._backward = backward_of(output)

    def found(self, outcome: Outcome) -> dict[str, Any]:
        """Plain data: `programs`, of which a later one has more values; `refused`: why there is none."""
        for program in self._programs:
            program["steps"] = [made for step in program["steps"] for made in self._differentiated(step)]
        return {"programs": self._programs, "refused": "" if self._programs else self._refused}

    def _differentiated(self, step: dict[str, Any]) -> list[dict[str, Any]]:
        if step["text"] != BACKWARD:
            return [step]
        return [{**step, "text": one} for one in self._backward]
