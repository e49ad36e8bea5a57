"""torch's CompilerBisector: which pass or lowering makes a backend fail. Knows nothing of bundles and replays.

The search is torch's (`torch._inductor.compiler_bisector`): it compiles again and again with one subsystem after the
other switched off, then with fewer applications of the guilty one. What is added here: the operator and the line of the
program behind a node that torch only names.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from replay.recording import UserFrame
from replay.torch_adapter import deviation, failures, features

BISECTOR = "torch._inductor.compiler_bisector"


_Node = tuple[str, UserFrame | None]
"""The operator of a node, and the line of the program that it comes from."""


class StoppedError(Exception):
    """Raised by a step to end the search; the message says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where the search ended. `stopped`: why it ended early; the other fields are then what was known."""

    backend: str
    subsystem: str | None = None
    number: int | None = None
    what: str = ""
    operator: str = ""
    place: UserFrame | None = None
    stopped: str = ""


def bisect(passes: Callable[[], bool], backend: str) -> Found | None:
    """Search in one backend. `passes`: compile anew and run; whether that went well. It may raise StoppedError.

    None where the search ends without the backend failing. What torch prints goes to stderr. Raises
    UnsupportedTorchError where this torch has no bisector.
    """
    bisector = features.require(features.module(BISECTOR), "CompilerBisector")
    current = features.require(bisector, "get_backend")
    nodes: dict[str, set[_Node]] = {}

    def step() -> bool:
        # The ladder has told already what the other backends do.
        return passes() if current() == backend else True

    try:
        with contextlib.redirect_stdout(sys.stderr), _noted(bisector, nodes):
            result = features.require(bisector, "do_bisect")(step)
    except StoppedError as stop:
        return Found(backend, features.require(bisector, "get_subsystem")(), stopped=str(stop))
    finally:
        _cleaned(bisector)
    if result is None:
        return None
    known = nodes.get(str(result.debug_info), set())
    # Two graphs may have nodes of one name: then nothing is said of either.
    operator, place = next(iter(known)) if len(known) == 1 else ("", None)
    switched = result.debug_info == result.subsystem  # a config value, which is on or off: nothing is counted
    return Found(
        backend=str(result.backend),
        subsystem=result.subsystem,
        number=None if switched else result.bisect_number,
        what=str(result.debug_info or ""),
        operator=operator,
        place=place,
    )


def config() -> dict[str, Any]:
    """Config values under which no cache answers in place of the compiler: a hit would mask the failure."""
    inductor = features.module("torch._inductor.config")
    name = "force_disable_caches"
    return {f"inductor.{name}": True} if hasattr(inductor, name) else {}


@contextlib.contextmanager
def _noted(bisector: Any, nodes: dict[str, set[_Node]]) -> Iterator[None]:
    """Keep, beside each name that torch asks for, the operator and the line of the node that is being lowered."""
    original = features.require(bisector, "disable_subsystem")
    own = vars(bisector)["disable_subsystem"]

    @functools.wraps(original)
    def noted(backend: str, subsystem: str, debug_info: Callable[[], str] | None = None) -> bool:
        def named() -> str:
            text = str(debug_info()) if debug_info is not None else ""
            if subsystem == "lowerings":
                nodes.setdefault(text, set()).add(_lowered())
            return text

        return bool(original(backend, subsystem, None if debug_info is None else named))

    bisector.disable_subsystem = staticmethod(noted)
    try:
        yield
    finally:
        bisector.disable_subsystem = own


def _lowered() -> _Node:
    """The operator of the node that Inductor lowers at this moment, and its line; empty where it does not say."""
    virtualized = features.require(features.module("torch._inductor.virtualized"), "V")
    try:
        node = virtualized.current_node
    except (AttributeError, NotImplementedError):
        return "", None
    place = deviation.place_of(node)
    return str(node.target), None if place is None else failures.user_frame(*place)


def _cleaned(bisector: Any) -> None:
    """A search that was stopped cleans up when its frame goes: see to that, or torch.compile goes on bisecting."""
    if features.require(bisector, "bisection_enabled"):
        gc.collect()
