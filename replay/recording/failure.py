"""Frozen data: a failure, and what tells it from others. A manifest and an outcome both speak of failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stage = Literal[
    "dynamo",
    "aot_autograd",
    "backend",
    "inductor",
    "backward",
    "runtime",
    "accuracy",
    "recompile_limit",
    "graph_break",
]
"""Where a failure happened; the words of the contract."""

Event = Literal["failure", "graph_break", "recompile", "accuracy", "success"]
"""What made the recorder write a bundle."""

DIED = "ProcessDied"
"""An ErrorInfo's type where the process did not survive the failure, so that nobody saw an exception."""

Status = Literal["passed", "reproduced", "different", "missing"]
"""A replay's verdict."""


@dataclass(frozen=True, slots=True)
class UserFrame:
    """One line of the user's own code in a stack, outermost first in a sequence of them."""

    file: str  # as the user's interpreter named it
    line: int  # 1-based
    function: str  # the code object's name
    code: str  # the line's text, stripped; empty where the text is not known


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """A failure: what a person sees, and what tells it from other failures."""

    type: str  # fully qualified: "torch._dynamo.exc.Unsupported"
    message: str  # str(exception), complete, without our own note
    stage: Stage
    fingerprint: str  # see replay.fingerprint
    user_frames: tuple[UserFrame, ...] = ()
    inner_type: str | None = None  # the exception that the compiler wrapped, where there is one
    gb_type: str | None = None  # torch's name for the kind of graph break
    raised_in: str | None = None  # innermost torch frame, "torch/_dynamo/exc.py:unimplemented"
    traceback: str = ""  # as Python prints it, for people


@dataclass(frozen=True, slots=True)
class Difference:
    """Compiled code computed something else than uncompiled code did."""

    where: str  # "output 0", "gradient of x", "x, which the graph writes to"
    index: tuple[int, ...]  # where the deviation is largest
    compiled: float  # the three values there (absolute values of complex numbers)
    uncompiled: float
    reference: float  # in float64; uncompiled where the graph cannot be run so
    error: float  # root mean square deviation of compiled from the reference; inf: another shape
    baseline: float  # and of uncompiled
    tolerance: float  # that was allowed
    place: tuple[str, int, str] | None = None  # file, line and function of the program that computed it
