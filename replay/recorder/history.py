"""What earlier calls of a frame looked like: needed where a failure depends on them (dynamic shapes, limits).

Kept only for calls that compiled, as metadata: no tensor of the user's is kept alive, and no object that is not
a plain value or a function over plain values. What is gone by the time of the failure becomes `Gone`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import CellType, CodeType, FunctionType
from typing import Any

from replay.recorder import attributes, frames
from replay.torch_adapter import hooks, sketches, state

KEPT = 300
"""Calls that are kept for one code object; torch's accumulated limit is 256."""
DEPTH = 4
WIDTH = 64
"""Containers are looked into so deep, and so wide."""

PLAIN = (int, float, complex, bool, str, bytes, type(None), type(...))


@dataclass(frozen=True, slots=True)
class Gone:
    """An object of an earlier call that was not kept."""

    type: str


@dataclass(frozen=True, slots=True)
class Call:
    """One earlier call: its local variables, sketched."""

    compile_id: str
    f_locals: Mapping[str, Any]
    grad_enabled: bool
    state: Mapping[str, Any] = field(default_factory=dict)  # as replay.torch_adapter.state captures it
    seen: attributes.Seen = field(default_factory=attributes.Seen)
    frame: Past | None = None


@dataclass(frozen=True, slots=True)
class Past:
    """What else is known of the frame that was compiled."""

    code: CodeType
    f_globals: dict[str, Any]
    closure: tuple[Any, ...]  # contents of the cells, sketched; Gone where a cell was empty
    converter: Any


@dataclass(frozen=True, slots=True)
class Sketched:
    """Marks a sketch among live values."""

    sketch: Any


class History:
    """The compiling calls of every frame in a block."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[CodeType, list[Call]]] = {}  # by id: equal code may be of two functions
        self._lock = threading.Lock()
        self.refused: Call | None = None  # the latest that the stance fail_on_recompile refused

    def note(self, attempt: hooks.Attempt) -> None:
        """Keep a sketch of a call that compiled."""
        call = _call(attempt)
        with self._lock:
            if attempt.fate == "refused":
                self.refused = call
                return
            _, calls = self._calls.setdefault(id(attempt.code), (attempt.code, []))
            if call.compile_id.endswith("/0"):
                calls.clear()  # the first compilation: what was before is forgotten by torch as well
            calls.append(call)
            del calls[:-KEPT]

    def before(self, attempt: hooks.Attempt) -> list[Call]:
        """The calls that compiled this frame before, oldest first."""
        with self._lock:
            return list(self._kept(attempt.code))

    def last(self, code: CodeType) -> Call | None:
        """The latest call that compiled a code object."""
        with self._lock:
            calls = self._kept(code)
            return calls[-1] if calls else None

    def find(self, compile_id: str) -> Call | None:
        """The call that was compiled under an id."""
        with self._lock:
            calls = (call for _, kept in self._calls.values() for call in kept)
            return next((call for call in calls if call.compile_id == compile_id), None)

    def only(self) -> Call | None:
        """The one call of a block in which nothing else was compiled."""
        with self._lock:
            calls = [call for _, kept in self._calls.values() for call in kept]
            return calls[0] if len(calls) == 1 else None

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._calls.clear()
            self.refused = None

    def _kept(self, code: CodeType) -> list[Call]:
        return self._calls[id(code)][1] if id(code) in self._calls else []


def _call(attempt: hooks.Attempt) -> Call:
    return Call(
        compile_id=attempt.compile_id or "?",
        f_locals={name: sketch(value) for name, value in attempt.f_locals.items()},
        grad_enabled=sketches.grad_enabled(),
        state=state.capture(),
        seen=attributes.seen(
            attempt.code,
            attempt.f_globals,
            attempt.closure,
            [*attempt.f_locals.values(), *map(frames.content, attempt.closure)],
        ),
        frame=Past(
            attempt.code,
            attempt.f_globals,
            tuple(_cell_sketch(cell) for cell in attempt.closure),
            attempt.converter,
        ),
    )


def sketch(value: Any, depth: int = DEPTH) -> Any:
    """What is kept of a value: itself if plain, metadata of a tensor, a weak reference to the rest."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if sketches.is_tensor(value):
        return sketches.Tensor.of(value) or Gone(kind.__qualname__)
    if depth and kind in (tuple, list) and len(value) <= WIDTH:
        return kind(sketch(item, depth - 1) for item in value)
    if kind in (set, frozenset) and len(value) <= WIDTH and _all_plain(value):
        return kind(value)
    if depth and kind is dict and len(value) <= WIDTH and _all_plain(value):
        return {key: sketch(item, depth - 1) for key, item in value.items()}
    if kind is FunctionType and _is_small(value):
        return value
    try:
        return weakref.ref(value)
    except TypeError:
        return Gone(kind.__qualname__)


def revive(value: Any, tensor: Callable[[sketches.Tensor], Any]) -> Any:
    """The inverse of `sketch`, as far as it goes; `tensor` makes the stand-in of a tensor."""
    kind = type(value)
    if kind is weakref.ref:
        target = value()
        return Gone("object") if target is None else target
    if kind is sketches.Tensor:
        return tensor(value)
    if kind in (tuple, list):
        return kind(revive(item, tensor) for item in value)
    if kind is dict:
        return {key: revive(item, tensor) for key, item in value.items()}
    return value


def revived(attempt: hooks.Attempt, tensor: Callable[[sketches.Tensor], Any]) -> hooks.Attempt:
    """The attempt with every `Sketched` variable and cell made again."""

    def value_of(value: Any) -> Any:
        return revive(value.sketch, tensor) if type(value) is Sketched else value

    return replace(
        attempt,
        f_locals={name: value_of(value) for name, value in attempt.f_locals.items()},
        closure=tuple(_revived_cell(cell, value_of) for cell in attempt.closure),
    )


def _revived_cell(cell: CellType, value_of: Callable[[Any], Any]) -> CellType:
    held = frames.content(cell)
    return CellType(value_of(held)) if type(held) is Sketched else cell


def _cell_sketch(cell: CellType) -> Any:
    try:
        return sketch(cell.cell_contents)
    except ValueError:  # not assigned yet
        return Gone("cell")


def _all_plain(values: Iterable[Any]) -> bool:
    return all(type(value) in PLAIN for value in values)


def _is_small(function: FunctionType) -> bool:
    cells = function.__closure__ or ()
    return all(type(frames.content(cell)) in PLAIN for cell in cells)
