"""One run of a recorded frame over values of its own, and what it gave: for comparing runs with each other.

`uncompiled` and `in_double` run a twin: the bundle's values are loaded once more, so that no run sees what another
wrote. `Watched` looks at any one run. Nothing here compares.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from replay import isolation
from replay.replayer.launch import UNCOMPILED_RUN
from replay.replayer.preparation import Prepared, prepare
from replay.replayer.task import Task
from replay.torch_adapter import compiling, gradients, holdings, stances, state, widening
from replay.torch_adapter.building import TensorBuilder
from replay.torch_adapter.gradients import Gradients
from replay.torch_adapter.holdings import Holdings


@dataclass(slots=True)
class Run:
    """What one run of the frame gave."""

    output: Holdings | None = None  # None: it gave nothing
    before: Mapping[str, Any] = field(default_factory=dict)  # of what it can reach: a Before for each path
    after: Holdings | None = None
    gradients: Mapping[str, Any] | None = None  # None: not differentiated
    error: str = ""  # what it raised
    backward_error: str = ""  # what its backward raised
    start: Mapping[str, Any] = field(default_factory=dict)  # the generators, before the call
    generators: Mapping[str, Any] = field(default_factory=dict)  # as it left them
    drew: bool = False  # random numbers


class Watched:
    """One run of a frame that is loaded: what it can reach before the call and after, its output, its gradients."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared, self.run = prepared, Run()
        held = holdings.look(self._roots())
        self.run.before = holdings.remember(held)
        self._gradients = Gradients(held.tensors())
        self.run.start = state.generators()

    def returned(self, output: Any) -> bool:
        """The frame gave something. Whether it can be differentiated; then the gradients are kept from here on."""
        self.run.output = holdings.look({"output": output})
        self.run.after = holdings.look(self._roots())
        self.run.generators = state.generators()
        self.run.drew = self.run.generators != self.run.start
        able = gradients.wanted(output)
        if able:
            self._gradients.watch()
        return able

    def differentiated(self) -> None:
        """The backward has been run."""
        self._gradients.stop()
        self.run.gradients = dict(self._gradients.taken)

    def stop(self) -> None:
        """No backward comes, or it raised."""
        self._gradients.stop()

    def _roots(self) -> dict[str, Any]:
        one = self._prepared
        return holdings.roots_of(one.subject, one.positional, one.keywords)


def uncompiled(task: Task) -> Run:
    """The frame, run as Python runs it."""
    return _run(task, TensorBuilder, nullcontext, task.manifest.state)


def in_double(task: Task, like: Run) -> Run:
    """The same in double precision, as far as its code lets that be decided from outside; drawing as `like` drew."""
    return _run(task, widening.WideBuilder, widening.entered, {"generators": like.start})


def alone(task: Task, **changed: Any) -> Task:
    """A task of its own for one more run: nothing that it finds out is told."""
    request = {**task.request, "pdb": False, **changed}
    return replace(task, request=request, drift=[], notes=[], remapped=set(), started=time.perf_counter())


def _run(
    task: Task,
    builder: type[TensorBuilder],
    context: Callable[[], AbstractContextManager[None]],
    generators: Mapping[str, Any],
) -> Run:
    twin = replace(alone(task, backend=compiling.UNCOMPILED, mode=None), builder=builder)
    with ExitStack() as stack:
        prepared = prepare(twin, stack)
        isolation.announce(UNCOMPILED_RUN)
        stack.enter_context(stances.uncompiled())
        stack.enter_context(context())
        prepared.repeat(prepared.subject)
        state.seed(generators)
        watched = Watched(prepared)
        _call(prepared, watched)
    return watched.run


def _call(prepared: Prepared, watched: Watched) -> None:
    try:
        output = prepared.subject(*prepared.positional, **prepared.keywords)
        able = watched.returned(output)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - also SystemExit is an answer
        watched.run.error = said(error)
        return
    try:
        if able:
            compiling.run_backward(output)
            watched.differentiated()
    except Exception as error:  # noqa: BLE001 - gradients are compared where there are some
        watched.run.backward_error = said(error)
    finally:
        watched.stop()


def said(error: BaseException) -> str:
    """An exception in one line."""
    text = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
