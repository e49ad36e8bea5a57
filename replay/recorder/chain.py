"""The root of a resume function: the function that the user wrote, with the arguments of its call.

Dynamo makes a resume function's code itself, so that only its bytecode exists, which one Python minor version
can run. Its root is ordinary source: replayed from its beginning, it breaks at the same places and comes to the
same resume function. The root is still on the stack when the resume function fails.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable, Mapping
from types import CellType, FunctionType
from typing import Any

from replay.errors import MissingError
from replay.recorder import frames, history
from replay.selection import resumed_function
from replay.source import qualified_name
from replay.torch_adapter import hooks, sketches


def root_of(
    attempt: hooks.Attempt,
    stack: Iterable[hooks.LiveFrame],
    calls: history.History,
    tensor: Callable[[sketches.Tensor], Any],
) -> dict[str, Any] | None:
    """Function and arguments of the root of a resume function's frame; None for any other frame.

    `stack`: the compiled frames that it was called from, innermost first. An argument that its function has
    rebound is taken from the call that compiled it: the same tensor if it is alive, else one of synthetic values,
    which `tensor` makes.
    """
    name = resumed_function(attempt.code.co_name)
    if name is None:
        return None
    for live in stack:
        if live.code.co_name == name and resumed_function(live.code.co_name) is None:
            try:
                return {"function": _function(live), "arguments": _arguments(live, calls, tensor)}
            except MissingError:  # an argument was deleted, and no call that compiled was seen
                return None
    return None


def _function(live: hooks.LiveFrame) -> FunctionType:
    cells = tuple(cell(live.f_locals, name) for name in live.code.co_freevars)
    function = FunctionType(live.code, live.f_globals, live.code.co_name, None, cells or None)
    function.__qualname__ = qualified_name(live.code)
    return function


def cell(f_locals: Mapping[str, Any], name: str) -> CellType:
    """A cell with what a running frame sees of a free variable."""
    return CellType(f_locals[name]) if name in f_locals else CellType()


def _arguments(
    live: hooks.LiveFrame, calls: history.History, tensor: Callable[[sketches.Tensor], Any]
) -> frames.Arguments:
    values = variables(live, calls)
    known = {
        k: history.revive(v.sketch, tensor) if type(v) is history.Sketched else v for k, v in values.items()
    }
    return frames.arguments(live.code, known)


def variables(live: hooks.LiveFrame, calls: history.History) -> dict[str, Any]:
    """A running frame's variables; those that its code has rebound are `Sketched`, of the call that compiled it."""
    earlier = calls.last(live.code)
    values = dict(live.f_locals)
    for name in rebound(live):
        if earlier is not None and name in earlier.f_locals:
            values[name] = history.Sketched(earlier.f_locals[name])
    return values


def rebound(live: hooks.LiveFrame) -> set[str]:
    """Arguments that the running code assigns to or deletes."""
    arguments = set(frames.argument_names(live.code))
    found: set[str] = set()
    for one in dis.get_instructions(live.generated):
        if one.opname.startswith(("STORE_", "DELETE_")):  # Python 3.13 stores two names at once
            found.update(one.argval if isinstance(one.argval, tuple) else (one.argval,))
    return arguments & found
