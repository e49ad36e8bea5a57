"""The replay itself: prepare the frame, call it, judge what came of it.

Runs in a child process that is ours alone, or in the user's own with `isolate=False`; then everything that it
changes is put back. Options are checked in `replay.replayer.launch`; nothing is printed here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict
from types import CodeType
from typing import Any

from replay import isolation, source
from replay.bundle import load
from replay.errors import MissingError, ReplayError, UsageError
from replay.recording import Outcome
from replay.replayer import debugger, elsewhere, instruments, judgement, process, sequence
from replay.replayer.preparation import Prepared, prepare
from replay.replayer.process import Request
from replay.replayer.seen import Seen
from replay.replayer.task import Task
from replay.torch_adapter import (
    accuracy,
    backward_nodes,
    compiling,
    fakes,
    hooks,
    later,
    logs,
    stances,
    state,
)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The child's side: outcome and findings as plain data, or the error that the parent is to raise."""
    request["function"] = tuple(
        one if isinstance(one, str) else re.compile(one["regex"], one["flags"]) for one in request["function"]
    )
    try:
        outcome, found = replay(request)
    except ReplayError as error:
        return {"raised": type(error).__name__, "message": str(error)}
    return {"outcome": asdict(outcome), "found": found}


def replay(request: Request) -> tuple[Outcome, dict[str, Any]]:
    """Replay one request in this process: the outcome, and what each instrument found."""
    started = time.perf_counter()
    isolation.announce("load")
    findings: list[dict[str, Any]] = []
    with ExitStack() as stack:
        bundle = stack.enter_context(load(request["path"]))
        if request.get("digest", bundle.digest) != bundle.digest:
            raise ReplayError(f"{bundle.path}: the file was changed meanwhile; look at it again")
        stack.enter_context(process.variables(bundle.manifest, request))
        elsewhere.prepare(bundle.manifest)
        process.import_torch()
        stack.enter_context(logs.shown(request["logs"]))

        def attempt(place: elsewhere.Place) -> Outcome:
            outcome, found = _attempt(Task(bundle, request, place, started))
            findings.append(found)
            return outcome

        outcome, position = elsewhere.best(elsewhere.places(bundle.manifest, request), attempt)
        return outcome, findings[position]


def _attempt(task: Task) -> tuple[Outcome, dict[str, Any]]:
    """One replay, at one place."""
    attached = instruments.build(task.request)
    with ExitStack() as stack:
        try:
            for one in attached.values():
                one.before(task)
            outcome = _Replay(prepare(task, stack), attached).run()
        except MissingError as error:
            return judgement.lacks(task, str(error)), {}
        found = {name: one.found(outcome) for name, one in attached.items()}
    for one in attached.values():
        outcome = one.settled(task, outcome)
    return outcome, found


class _Replay:
    """One prepared frame, and what is seen while it is called."""

    def __init__(self, prepared: Prepared, attached: dict[str, instruments.Instrument]) -> None:
        self.prepared, self.task, self.attached = prepared, prepared.task, attached
        self.seen = Seen()
        self.sequence = sequence.Repetition(prepared) if sequence.is_recorded(prepared) else None

    def run(self) -> Outcome:
        """Call the frame under every hook, and judge."""
        task, prepared = self.task, self.prepared
        function = prepared.compiled()
        prepared.repeat_calls(function)
        task.drift += state.seed(task.manifest.state)
        function, positional, keywords = prepared.entered(function)
        for one in self.attached.values():
            function = one.calling(function, prepared)
        self.seen.breaks, self.seen.graphs = hooks.graph_breaks(), hooks.graphs()
        self.seen.subject = prepared.subject.__code__
        running = time.perf_counter()
        with ExitStack() as stack:
            self._watch(stack)
            self._call(function, positional, keywords)
            if self.sequence is not None:
                self.sequence.trail(function)
        seconds = {"load": prepared.loading, "run": time.perf_counter() - running}
        self._check_selection()
        task.notes += self.seen.unsure
        if self.seen.suppressed:
            task.notes.append("suppress_errors hid the error from the program: the frame ran on uncompiled")
        self.seen.calls = None if self.sequence is None else tuple(self.sequence.calls)
        return judgement.judge(task, self.seen, prepared.loaded, seconds)

    def _watch(self, stack: ExitStack) -> None:
        manifest, enter = self.task.manifest, stack.enter_context
        for one in self.attached.values():
            enter(one.around(self.prepared, self.seen))
        if not self.task.compiles:
            enter(stances.uncompiled())
            return
        enter(hooks.observing(self.seen.observe, self._gate(), wrap=self._comparison()))
        if self.sequence is not None:
            enter(hooks.observing(self.sequence.observe, before=self.sequence.begin))
        for one in self.attached.values():
            enter(hooks.observing(one.observe, wrap=one.wrap))
        enter(later.observing_backward(self.seen.observe_backward))
        enter(stances.refusing(manifest.state.get("stance")))
        enter(backward_nodes.region(inside=manifest.compile.entry == "compiled_autograd"))

    def _gate(self) -> Callable[[CodeType], bool] | None:
        selection = self.task.selection
        if not selection.patterns:
            return None

        def allowed(code: CodeType) -> bool:
            verdict = selection.matches_code(code)
            self.seen.names[verdict].add(source.qualified_name(code))
            return verdict

        return allowed

    def _comparison(self) -> hooks.Wrapper | None:
        """Wrong numbers are looked for where the recording is of them, with its tolerance."""
        recorded, chosen = self.task.manifest.difference, self.task.request["tolerance"]
        if recorded is None:
            return None
        tolerance = recorded.tolerance if chosen is None else chosen
        return accuracy.Comparing(
            self.seen.observe_difference, self.seen.unsure.append, tolerance, lambda code: True
        ).wrap

    def _check_selection(self) -> None:
        if self.task.selection.patterns and self.task.compiles and not self.seen.names[True]:
            offered = ", ".join(sorted(self.seen.names[False])) or "none"
            raise UsageError(
                f"--function {self.task.selection}: matches no function; compiled here would be: {offered}"
            )

    def _call(
        self, function: Callable[..., Any], positional: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        isolation.announce("compile" if self.task.compiles else "run")
        backward = self.task.backward
        try:
            last: AbstractContextManager[Any] = nullcontext()
            if self.sequence is not None:
                self.sequence.lead(function)
                last = self.sequence.step()
            with self.task.place.running(backward=backward):
                with last:
                    output = function(*positional, **keywords)
                for one in self.attached.values():
                    one.returned(output)
                wanted = backward or any(one.differentiates for one in self.attached.values())
                if wanted:
                    self._differentiate(output, expected=backward)
        except KeyboardInterrupt:
            raise
        except fakes.StoppedError as stop:
            self.task.notes.append(str(stop))
        except BaseException as error:  # noqa: BLE001 - also SystemExit is an outcome
            self.seen.add_run(error)
        if self.task.request["pdb"]:
            self._debug()

    def _differentiate(self, output: Any, *, expected: bool) -> None:
        if compiling.run_backward(output):
            for one in self.attached.values():
                one.differentiated()
        elif expected:
            self.task.notes.append("the frame's output does not depend on anything that requires a gradient")

    def _debug(self) -> None:
        match = judgement.find_match(self.task, self.seen)
        errors = [
            one for one in (match, *self.seen.errors) if one is not None and id(one) in self.seen.traces
        ]
        if errors and self.seen.traces[id(errors[0])] is not None:
            debugger.stop(errors[0], self.seen.traces[id(errors[0])])
        elif self.seen.errors:
            self.task.notes.append("--pdb: nothing was raised, so there is nowhere to stop")
