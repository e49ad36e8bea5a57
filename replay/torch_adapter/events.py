"""What happens to a frame that is no exception, as plain data with a fingerprint.

A graph break inside a frame, a compilation that was not the first, wrong numbers. The exceptions are described in
`failures`; what makes a bundle is decided in the recorder, what a replay compares in the replayer.
"""

from __future__ import annotations

import re
from types import CodeType

from replay import fingerprint
from replay.recording import Difference, ErrorInfo, UserFrame
from replay.torch_adapter import failures, hooks

BREAK = "torch._dynamo.exc.Unsupported"
"""What a graph break raises where the whole frame must be one graph."""
WRONG = "torch._dynamo.debug_utils.AccuracyError"
"""What torch's own accuracy tools raise."""

_ENTRY = re.compile(r"^\d+/\d+: ")
"""torch's reasons begin with the compile id of the entry whose guard failed."""


def describe_break(one: hooks.Break) -> ErrorInfo:
    """A graph break inside a compiled frame."""
    user = tuple(failures.user_frame(*place) for place in one.stack)
    title = next(iter(one.reason.splitlines()), "").strip()
    return ErrorInfo(
        type=BREAK,
        message=one.reason,
        stage="graph_break",
        fingerprint=fingerprint.compute(
            stage="graph_break",
            type=BREAK,
            gb_type=title,
            user_frames=user[-1:],
            title=title,
        ),
        user_frames=user,
        gb_type=title,
    )


def describe_recompile(attempt: hooks.Attempt) -> tuple[str, str]:
    """Fingerprint and reason of a compilation that was not the frame's first.

    Across releases of torch the frame alone counts: the wording of guards changes.
    """
    reason = hooks.recompile_reason(attempt)
    return recompile_fingerprint(attempt.code, reason), reason


def frame_fingerprint(code: CodeType) -> str:
    """The fingerprint of a frame that is compiled more than once, whatever the reasons are."""
    return fingerprint.compute(stage="recompile", type="", user_frames=failures.own_frame(code))


def recompile_fingerprint(code: CodeType, reason: str) -> str:
    """The fingerprint of a frame that is compiled again for this reason, in torch's words."""
    first = next(iter(reason.splitlines()), "").partition("  #")[0]
    return fingerprint.compute(
        stage="recompile",
        type="",
        user_frames=failures.own_frame(code),
        title=_ENTRY.sub("", first),
    )


def is_recompile(attempt: hooks.Attempt) -> bool:
    """Whether the frame was compiled, and not for the first time."""
    number = (attempt.compile_id or "").rpartition("/")[2]
    return attempt.fate == "compiled" and number.isdigit() and number != "0"


def describe_difference(
    found: Difference, code: CodeType, unlike: tuple[str, str] | None = None
) -> ErrorInfo:
    """Wrong numbers of a frame. What was measured is in the message and does not count for the fingerprint.

    `unlike`: what compiled and uncompiled code gave, where that is no matter of numbers.
    """
    user: tuple[UserFrame, ...] = failures.own_frame(code)
    if found.place is not None:
        user = (failures.user_frame(*found.place),)
    return ErrorInfo(
        type=WRONG,
        message=say_difference(found) if unlike is None else say_unlike(found.where, unlike),
        stage="accuracy",
        fingerprint=fingerprint.compute(
            stage="accuracy",
            type=WRONG,
            user_frames=user,
            title=found.where,
        ),
        user_frames=user,
    )


def say_unlike(where: str, unlike: tuple[str, str]) -> str:
    """One line: what compiled and uncompiled code gave."""
    return f"{where}: {unlike[0]} compiled, {unlike[1]} uncompiled"


def say_difference(found: Difference) -> str:
    """One line: what differs, by how much, and where most."""
    if found.error == float("inf") and not found.index and found.compiled != found.compiled:
        return f"{found.where} has another shape than uncompiled code gives it"
    place = f" at {list(found.index)}" if found.index else ""
    return (
        f"{found.where} differs from uncompiled code: root mean square error {found.error:.3g} against float64 "
        f"(uncompiled {found.baseline:.3g}, tolerance {found.tolerance:g}); "
        f"largest{place}: {found.compiled:.6g} compiled, {found.reference:.6g} expected"
    )
