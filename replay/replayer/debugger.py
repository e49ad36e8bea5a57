"""`--pdb`: the debugger at the place that failed. Nothing here replays or judges.

It stops at the innermost line of the program among the frames that the error came through. An error of the compiler
comes through none: the program's line was read, not run. Then it stops where torch raised, and says which line.
"""

from __future__ import annotations

import pdb
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from types import CodeType, FrameType, TracebackType
from typing import Any

from replay.recording import ErrorInfo
from replay.torch_adapter import failures, later


def stop(error: ErrorInfo, trace: TracebackType) -> None:
    """Debug an error until the user quits. Speaks on stderr where stdout is no terminal: results go there."""
    trace = _without_ours(trace)
    at, place = failing_place(trace)
    guard: AbstractContextManager[Any] = nullcontext() if sys.stdout.isatty() else redirect_stdout(sys.stderr)
    with guard:
        for line in _introduction(error, place):
            _say(line)
        debugger = _PostMortem(at)
        debugger.reset()
        try:
            debugger.interaction(None, trace)
        except pdb.Restart:
            _say("a replay cannot be run again from here; give the command once more")


def failing_place(trace: TracebackType) -> tuple[int, CodeType | None]:
    """Which frame of a traceback to stop at, counted from its outermost; with its code if that is the program's."""
    codes = []
    step: TracebackType | None = trace
    while step is not None:
        codes.append(step.tb_frame.f_code)
        step = step.tb_next
    users = [at for at, code in enumerate(codes) if failures.is_user_file(code.co_filename)]
    return (users[-1], codes[users[-1]]) if users else (len(codes) - 1, None)


class _PostMortem(pdb.Pdb):
    """The debugger on a traceback, at a chosen frame instead of the innermost."""

    def __init__(self, at: int) -> None:
        super().__init__(nosigint=True)
        self._at = at

    def get_stack(
        self, f: FrameType | None, t: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        """The frames, and the position of the current one."""
        stack, innermost = super().get_stack(f, t)
        return stack, min(self._at, innermost)


def _without_ours(trace: TracebackType) -> TracebackType:
    """The traceback from the first frame on that is not this package's, if there is one."""
    step: TracebackType | None = trace
    while step is not None and step.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "replay":
        step = step.tb_next
    return step or trace


def _introduction(error: ErrorInfo, place: CodeType | None) -> Iterator[str]:
    first = next((line for line in error.message.splitlines() if line.strip()), "")
    yield f"{error.type}: {first}"
    if place is None:
        if error.user_frames:
            user = error.user_frames[-1]
            yield f"the program's line, which was being compiled: {user.file}:{user.line} in {user.function}"
            yield f"    {user.code}"
        yield "stopped where it was raised"
    elif later.is_generated(place):
        yield "compiled code keeps no line numbers; --backend uncompiled stops at the line, if it fails there too"
    yield "up and down walk the stack, where shows it, q goes on to the verdict"


def _say(line: str) -> None:
    """One line on stderr; what could steer a terminal is escaped."""
    sys.stderr.write("".join(c if c.isprintable() else ascii(c)[1:-1] for c in f"replay: {line}") + "\n")
    sys.stderr.flush()
