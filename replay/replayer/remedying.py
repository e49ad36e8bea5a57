"""The instrument behind the remedies: it changes every call of a repeated sequence before it is made.

A request lists the changes as steps, plain data that `replay.recompilation.proposing` makes. What each call gives and
writes to is compared with the sequence uncompiled and unchanged: see `results`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import FunctionType
from typing import Any, TypeVar

from replay import isolation
from replay.errors import ReplayError
from replay.recording import Outcome
from replay.recording.comparison import Comparison
from replay.replayer import places, results, sequence, twins
from replay.replayer.instruments import Instrument
from replay.replayer.places import Arguments, NoPlaceError, Place
from replay.replayer.preparation import Prepared
from replay.replayer.results import Gave, Given
from replay.replayer.seen import Seen
from replay.replayer.task import Task
from replay.torch_adapter import deviation, features, holdings, marking, state

Step = Mapping[str, Any]
Found = TypeVar("Found")


class Remedying(Instrument):
    """`steps`: what is changed of every call. `compare`: whether what the calls give is compared.

    `loose`: a tensor of another dtype than uncompiled code gives is compared in that dtype.
    """

    def __init__(self, steps: Sequence[Step] = (), *, compare: bool = True, loose: bool = False) -> None:
        self._steps, self._compare, self._loose = steps, compare, loose
        self._given, self._plain, self._drew = Given(), Given(), False
        self._refused, self._skipped = "", ""
        self._told: dict[int, str] = {}  # by the step's position, for the report
        self._first: dict[int, Any] = {}  # by the step's position: what the first call had
        self._numbers: dict[tuple[int, str], Any] = {}  # tensors in place of numbers
        self._prepared: Prepared | None = None

    def before(self, task: Task) -> None:
        """Run the sequence uncompiled, if it can be repeated."""
        if task.manifest.sequence is None or not task.compiles:
            self._refused = "the bundle has no sequence that can be repeated here"
        elif task.place.fakes is not None:
            self._skipped = "over fake tensors nothing runs"
        elif self._compare:
            begun = time.perf_counter()
            try:
                self._plain, self._drew = results.uncompiled(task)
            except ReplayError:
                raise
            except Exception as error:  # noqa: BLE001 - the replay must not suffer
                self._skipped = f"it could not be run uncompiled: {twins.said(error)}"
            task.aside += time.perf_counter() - begun
            isolation.announce("load")

    @contextmanager
    def around(self, prepared: Prepared, seen: Seen) -> Iterator[None]:
        """Nothing is said where no sequence is repeated."""
        if not sequence.is_recorded(prepared):
            self._refused = "the bundle has no sequence that can be repeated here"
        yield

    def calling(self, function: Callable[..., Any], prepared: Prepared) -> Callable[..., Any]:
        """What is called in place of the compiled function."""
        self._prepared = prepared

        def call(*positional: Any, **keywords: Any) -> Any:
            def roots() -> Mapping[str, Any]:
                return holdings.roots_of(prepared.subject, positional, keywords)

            nothing: results.Before = {}
            before = self._guarded(lambda: results.remember(roots), nothing)
            with ExitStack() as stack:
                arguments = self._changed(stack, Arguments(positional, keywords))
                output = self._made(function, arguments)
            self._guarded(lambda: self._keep(output, before, roots), None)
            return output

        return call

    def _made(self, function: Callable[..., Any], arguments: Arguments) -> Any:
        try:
            return function(*arguments.positional, **arguments.keywords)
        except Exception as error:
            self._given.calls.append(Gave(error=type(error).__qualname__))
            raise

    def _guarded(self, look: Callable[[], Found], nothing: Found) -> Found:
        """What is found for the comparison; the replay must not suffer from it."""
        if not self._compare or self._skipped:
            return nothing
        try:
            return look()
        except Exception as error:  # noqa: BLE001 - then nothing is compared
            self._skipped = f"what the calls give could not be kept: {twins.said(error)}"
            return nothing

    def _keep(self, output: Any, before: results.Before, roots: results.Roots) -> None:
        number = len(self._given.calls)
        wanted = self._plain.calls[number].held if number < len(self._plain.calls) else {}
        self._given.keep(output, before, holdings.look(roots()), wanted)

    def _changed(self, stack: ExitStack, arguments: Arguments) -> Arguments:
        """The arguments of one call; one that cannot be changed is made as it is, and the remedy is refused."""
        for position, step in enumerate(self._steps):
            try:
                self._apply(position, step, stack, arguments)
            except Exception as error:  # noqa: BLE001 - whatever it is, this is no remedy here
                said = str(error) if isinstance(error, NoPlaceError) else twins.said(error)
                self._refused = self._refused or said
        return arguments

    def _apply(self, position: int, step: Step, stack: ExitStack, arguments: Arguments) -> None:
        act = step["act"]
        if act == "grad":
            stack.enter_context(state.grad(step["enabled"]))
        elif act == "state":
            now = state.capture()
            first = self._first.setdefault(position, now)
            wanted = {name: first[name] for name in step["names"] if name in first}
            self._told[position] = ", ".join(f"{name}={value}" for name, value in wanted.items())
            stack.enter_context(state.applied({**now, **wanted}))
        elif act == "stance":
            if position in self._first:
                stack.enter_context(marking.stance(step["stance"]))
            self._first[position] = None
        else:
            assert self._prepared is not None
            function: Any = self._prepared.subject
            place = Place.of(step)
            if act == "tensor" and step.get("words"):
                owner = places.owner(place, function, arguments)
                self._told[position] = step["words"]["buffer" if places.is_module(owner) else "attribute"]
            places.change(place, function, arguments, lambda value: self._act(position, step, value), stack)

    def _act(self, position: int, step: Step, value: Any) -> Any:
        """What is to stand in place of a value."""
        act = step["act"]
        if act in ("mark_dynamic", "mark_unbacked"):
            getattr(marking, act)(value, step["dimension"])
            return value
        if act == "contiguous":
            return value.contiguous()
        if act == "number":
            return float(value)
        if act == "tensor":
            return self._tensor(position, step, value)
        first = self._first.setdefault(position, value)
        if act == "hoist":
            _check_equal(first, value)
            return first
        if act == "hold":
            return first
        return self._converted(position, step, first, value)

    def _tensor(self, position: int, step: Step, value: Any) -> Any:
        """A tensor with the number in it: the same one in every call where it is an attribute, as a buffer is."""
        torch = features.module("torch")
        if type(value) not in (int, float):
            raise NoPlaceError(f"a {type(value).__name__} is no number")
        dtype = features.require(torch, step["dtype"]) if step.get("dtype") else None
        new = torch.tensor(value, dtype=dtype)
        if not step["path"] or step["path"][-1][0] != "attribute":
            return new
        kept = self._numbers.setdefault((position, str(new.dtype)), new)
        with torch.no_grad():
            kept.fill_(new)
        return kept

    def _converted(self, position: int, step: Step, first: Any, value: Any) -> Any:
        """A tensor like that of the first call in one respect."""
        if not deviation.is_real(value) or not deviation.is_real(first):
            raise NoPlaceError(f"a {type(value).__name__} is no tensor with values")
        if step["act"] == "requires_grad":
            self._told[position] = ".requires_grad_()" if first.requires_grad else ""
            if value.requires_grad == first.requires_grad:
                return value
            return value.detach().requires_grad_(first.requires_grad)
        wanted = getattr(first, step["what"])
        self._told[position] = str(wanted) if step["what"] == "dtype" else repr(str(wanted))
        return value.to(wanted)

    def found(self, outcome: Outcome) -> Any:
        """Why the changes could not be made, and what the first call had in their place."""
        return {"refused": self._refused, "told": [self._told.get(at, "") for at in range(len(self._steps))]}

    def settled(self, task: Task, outcome: Outcome) -> Outcome:
        """The outcome with the comparison."""
        if not self._compare or self._refused:
            return outcome
        if not self._skipped:
            try:
                return replace(outcome, comparison=self._compared())
            except Exception as error:  # noqa: BLE001 - tensors of a kind that cannot be compared
                self._skipped = f"comparing raised {twins.said(error)}"
        return replace(outcome, comparison=Comparison(skipped=self._skipped))

    def _compared(self) -> Comparison:
        """State that a step takes out of the frame, or makes a tensor of, is to be otherwise."""
        aside = [
            Place.of(one).shown for one in self._steps if one["act"] in ("tensor", "hold") and _is_state(one)
        ]
        return results.compare(self._given, self._plain, drew=self._drew, loose=self._loose, aside=aside)


def _is_state(step: Step) -> bool:
    """Whether a step is about something that outlives the call."""
    return step["root"] == "global" or any(kind != "item" for kind, _ in step["path"])


def _check_equal(first: Any, value: Any) -> None:
    """Raises NoPlaceError unless two objects are of one kind, with the same code and the same contents."""
    if first is value:
        return
    if not _is_same_type(type(first), type(value)):
        raise NoPlaceError(f"a {type(value).__name__} cannot stand for a {type(first).__name__}")
    if isinstance(first, FunctionType) and _code_of(first) != _code_of(value):
        raise NoPlaceError("the functions are not equal")
    one, two = (holdings.look({"it": each}) for each in (first, value))
    if one.found.keys() != two.found.keys() or not one.whole:
        raise NoPlaceError("the objects do not hold the same")
    for path, held in one.found.items():
        other = two.found[path]
        tensors = [deviation.is_real(each) for each in (held, other)]
        same = deviation.equal(held, other) if all(tensors) else not any(tensors) and bool(held == other)
        if not same:
            raise NoPlaceError(f"the objects are not equal: {path}")


def _is_same_type(one: type, other: type) -> bool:
    """Whether they are one class, or two that the same lines of the program made."""
    if one is other:
        return True
    if (one.__module__, one.__qualname__, one.__bases__) != (
        other.__module__,
        other.__qualname__,
        other.__bases__,
    ):
        return False
    shared = {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__"}
    parts = [
        {name: part for name, part in kind.__dict__.items() if name not in shared} for kind in (one, other)
    ]
    if parts[0].keys() != parts[1].keys():
        return False
    return all(_code_of(part) == _code_of(parts[1][name]) for name, part in parts[0].items())


def _code_of(value: Any) -> Any:
    """Of a function what its own code and defaults say; all else stands for itself."""
    if not isinstance(value, FunctionType):
        return value
    return value.__code__, repr(value.__defaults__), repr(value.__kwdefaults__)
