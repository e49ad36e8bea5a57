"""The instrument `compare`: the whole frame compiled, against the same frame uncompiled and in float64.

What the graphs compute is compared by `torch_adapter.accuracy`, one by one. What Dynamo itself does wrong (side
effects, bytecode, the order of writes) shows only here. Twins run before the frame is loaded; a frame that differs is
run once more, to find the graph that is at fault.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from types import CodeType
from typing import Any

from replay import isolation, source
from replay.errors import ReplayError
from replay.recording import Difference, Outcome
from replay.recording.comparison import Blame, Comparison
from replay.replayer import likeness, twins
from replay.replayer.instruments import Instrument
from replay.replayer.preparation import Prepared, prepare
from replay.replayer.seen import Seen
from replay.replayer.task import Task
from replay.replayer.twins import Run, Watched
from replay.torch_adapter import accuracy, events, hooks, state

RANDOM = "inductor.fallback_random"
"""The config under which Inductor draws the random numbers that uncompiled code draws."""


class Comparing(Instrument):
    """`tolerance`: None for the recording's, or else torch's own."""

    def __init__(self, tolerance: float | None = None) -> None:
        self._tolerance = tolerance
        self._plain: Run | None = None
        self._golden: Run | None = None
        self._watched: Watched | None = None
        self._code: CodeType | None = None
        self._result = Comparison()
        self._difference: Difference | None = None

    def before(self, task: Task) -> None:
        """Run the twins, unless there is nothing to compare with them."""
        recorded = task.manifest.difference
        if self._tolerance is None:
            self._tolerance = accuracy.default_tolerance() if recorded is None else recorded.tolerance
        self._result = Comparison(tolerance=self._tolerance, skipped=_pointless(task))
        if self._result.skipped:
            return
        begun = time.perf_counter()
        self._run_twins(task)
        task.aside += time.perf_counter() - begun
        isolation.announce("load")

    def _run_twins(self, task: Task) -> None:
        try:
            self._plain = twins.uncompiled(task)
        except ReplayError:
            raise
        except Exception as error:  # noqa: BLE001 - the replay must not suffer
            self._skip(f"what the frame can reach could not be looked at: {twins.said(error)}")
            return
        if self._plain.error:
            self._skip(f"uncompiled code raises as well: {self._plain.error}")
            return
        self._golden, doubt = _golden(task, self._plain)
        reference = "float64" if self._golden is not None else "uncompiled"
        self._result = replace(self._result, reference=reference, doubt=doubt)
        if self._plain.drew and not task.manifest.config.get(RANDOM):
            task.notes.append(
                f"the frame draws random numbers; it was compared under {RANDOM}={task.request['config'].get(RANDOM)}, "
                "which the recording did not have"
            )

    @contextmanager
    def around(self, prepared: Prepared, seen: Seen) -> Iterator[None]:
        """Watch the compiled run; compare when it is over."""
        if self._result.skipped:
            yield
            return
        self._code = prepared.subject.__code__
        try:
            state.seed({} if self._plain is None else {"generators": self._plain.start})
            self._watched = Watched(prepared)
        except Exception as error:  # noqa: BLE001 - the replay must not suffer
            self._skip(f"what the frame can reach could not be looked at: {twins.said(error)}")
        try:
            yield
        finally:
            if self._watched is not None:
                self._watched.stop()
        if self._result.skipped or self._watched is None:
            return
        if self._watched.run.output is None:
            self._skip(f"compiled code raised; {self._uncompiled_does()}")
            return
        try:
            self._compare(seen)
        except Exception as error:  # noqa: BLE001 - tensors of a kind that cannot be compared
            self._skip(f"comparing raised {twins.said(error)}")

    def returned(self, output: Any) -> None:
        """The compiled frame gave something; its backward is run if the twin's could be."""
        if self._watched is None or self._plain is None:
            return
        try:
            able = self._watched.returned(output)
        except Exception as error:  # noqa: BLE001 - it is no error of the frame's
            self._skip(f"what the frame gave could not be looked at: {twins.said(error)}")
            return
        self.differentiates = able and self._plain.gradients is not None

    def differentiated(self) -> None:
        """The compiled backward has run."""
        if self._watched is not None:
            self._watched.differentiated()

    def _compare(self, seen: Seen) -> None:
        watched, plain, tolerance = self._watched, self._plain, self._result.tolerance
        assert watched is not None
        assert plain is not None
        run, known = watched.run, self._result
        if plain.drew and run.generators != plain.generators:
            self._skip("compiled code draws other random numbers than uncompiled code")
            return
        found, difference = likeness.compare(run, plain, self._golden, tolerance)
        self._result = replace(
            found, reference=known.reference, doubt=known.doubt, no_gradients=self._no_gradients(run, plain)
        )
        self._difference = difference
        if difference is not None:
            seen.add_difference(difference, self._code, found.unlike)

    def _no_gradients(self, run: Run, plain: Run) -> str:
        if plain.backward_error:
            return f"uncompiled code raises in its backward: {plain.backward_error}"
        if plain.gradients is not None and run.gradients is None:
            return "compiled code raised in its backward; uncompiled code does not"
        return ""

    def _uncompiled_does(self) -> str:
        error = "" if self._plain is None else self._plain.backward_error
        return f"uncompiled code raises in its backward: {error}" if error else "uncompiled code does not"

    def _skip(self, why: str) -> None:
        self._result = replace(self._result, skipped=why)

    def settled(self, task: Task, outcome: Outcome) -> Outcome:
        """The outcome, with what was compared and whose fault a difference is."""
        begun = time.perf_counter()
        if self._difference is not None:
            self._result = replace(self._result, blame=_blame(task, self._result.tolerance))
        took = time.perf_counter() - begun
        notes = (*outcome.notes, *tellings(self._result, differs=self._difference is not None))
        total = outcome.seconds["total"] + took
        seconds = {**outcome.seconds, "compare": task.aside + took, "total": total}
        outcome = replace(outcome, comparison=self._result, notes=notes, seconds=seconds)
        blame, mine = self._result.blame, self._difference
        if mine is None or outcome.difference is not mine or self._code is None:
            return outcome
        if blame is None or blame.place is None:
            return outcome
        difference = replace(mine, place=blame.place)
        error = events.describe_difference(difference, self._code, self._result.unlike)
        return replace(outcome, difference=difference, error=error)

    def found(self, outcome: Outcome) -> Any:
        """What was compared."""
        return asdict(self._result)


def _pointless(task: Task) -> str:
    """Why a comparison makes no sense; empty where it does."""
    if not task.compiles:
        return "the frame is not compiled"
    if task.place.fakes is not None:
        return "over fake tensors nothing runs"
    entry = task.manifest.compile.entry
    if task.as_recorded and entry != "compile":
        return f"the frame goes into the compiler by {entry}, which does not give what the frame gives"
    return ""


def _golden(task: Task, plain: Run) -> tuple[Run | None, str]:
    """The twin in float64, or why there is none."""
    try:
        found = twins.in_double(task, plain)
    except Exception as error:  # noqa: BLE001 - values that cannot be widened: torch's tools go on without as well
        return None, twins.said(error)
    if found.error:
        return None, f"in float64 the frame raises {found.error}"
    if plain.drew and found.generators != plain.generators:
        return None, "in float64 the frame draws other random numbers"
    return found, ""


def _blame(task: Task, tolerance: float) -> Blame | None:
    """Run the frame once more with each of its graphs compared alone: the first that computes something else."""
    found: list[Blame] = []
    compiled: list[CodeType] = []

    def wrap(backend: Any, code: CodeType) -> Any:
        compiled.append(code)
        number = len(compiled)

        def differs(one: Difference, _: Any) -> None:
            found.append(Blame(number, source.qualified_name(code), one.where, one.error, one.place))

        return accuracy.Comparing(differs, lambda why: None, tolerance, lambda code: True).wrap(backend, code)

    again = twins.alone(task)
    with ExitStack() as stack:
        prepared = prepare(again, stack)
        function = prepared.compiled()
        prepared.repeat_calls(function)
        state.seed(again.manifest.state)
        stack.enter_context(hooks.observing(lambda attempt: None, wrap=wrap))
        try:
            function(*prepared.positional, **prepared.keywords)
        except Exception:  # noqa: BLE001 - it ran a moment ago; what was found until here counts
            return found[0] if found else None
    return found[0] if found else None


def tellings(result: Comparison, *, differs: bool) -> Iterator[str]:
    """What was compared, in sentences."""
    if result.skipped:
        yield f"not compared: {result.skipped}"
        return
    yield f"compared: {_counts(result)}; largest error {result.largest_error:.2g}"
    if result.doubt:
        yield f"the reference is uncompiled code, not float64: {result.doubt}"
    if result.no_gradients:
        yield f"gradients were not compared: {result.no_gradients}"
    if differs:
        yield _say_blame(result.blame)


def _counts(result: Comparison) -> str:
    counted = [
        (result.outputs, "output"),
        (result.written, "written input"),
        (result.gradients, "gradient"),
        (result.values, "other value"),
    ]
    parts = [f"{number} {word}{'' if number == 1 else 's'}" for number, word in counted if number]
    return ", ".join(parts) or "nothing that has a value"


def _say_blame(blame: Blame | None) -> str:
    if blame is None:
        return (
            "no graph alone computes anything else than it does uncompiled: "
            "look at what Dynamo does around the graphs, or at errors that add up"
        )
    where = "" if blame.place is None else f", {blame.place[0]}:{blame.place[1]} in {blame.place[2]}"
    return (
        f"the first graph that computes something else is number {blame.graph}, of {blame.function}: "
        f"{blame.where} (error {blame.error:.3g}){where}"
    )
