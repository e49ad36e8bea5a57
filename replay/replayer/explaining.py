"""The instrument behind `explain`: takes down what Dynamo made of each frame, in the replaying process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import CodeType
from typing import Any

from replay import source
from replay.findings.explanation import ExplainedFrame, Graph, GraphBreak
from replay.recording import ErrorInfo, Outcome
from replay.replayer.instruments import Instrument
from replay.replayer.preparation import Prepared, torch_version
from replay.replayer.seen import Seen
from replay.selection import resumed_function
from replay.torch_adapter import complaints, dissection, failures, hooks, tracing

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""Code of ours is compiled where it stands in for a device that is not here."""


class Explaining(Instrument):
    """What became of every attempt to compile a frame, in order."""

    def __init__(self) -> None:
        self._frames: list[ExplainedFrame] = []
        self._traced = tracing.Traced()
        self._own = 0

    @contextmanager
    def around(self, prepared: Prepared, seen: Seen) -> Iterator[None]:
        """Listen while the frame is called."""
        with tracing.listening() as self._traced:
            yield
        self._add_rest()

    def observe(self, attempt: hooks.Attempt) -> None:
        """Take down the frame that was tried just now."""
        error = _describe(attempt)
        self._add(
            attempt.code,
            fate=attempt.fate,
            compile_id=attempt.compile_id,
            seconds=attempt.seconds,
            breaks=_breaks(attempt, error),
            error=error if attempt.fate != "graph_break" else None,
        )

    def found(self, outcome: Outcome) -> dict[str, Any]:
        """Plain data: frames as `replay.findings.explanation` has them."""
        return {
            "frames": [asdict(one) for one in self._frames],
            "own": self._own,
            "unknown": list(self._traced.unknown),
            "torch": torch_version(),
        }

    def _add_rest(self) -> None:
        """What was traced without an attempt that the hooks report: an export that went well."""
        root = self._traced.root
        if root is not None and (self._traced.graphs or self._traced.unfinished):
            self._add(root, fate="traced", compile_id=None, seconds=0.0, breaks=(), error=None)

    def _add(
        self,
        code: CodeType,
        *,
        fate: str,
        compile_id: str | None,
        seconds: float,
        breaks: tuple[GraphBreak, ...],
        error: ErrorInfo | None,
    ) -> None:
        traced = self._traced
        if code.co_filename.startswith(_OURS):
            self._own += 1
            traced.clear()
            return
        self._frames.append(
            ExplainedFrame(
                function=source.qualified_name(code),
                file=code.co_filename,
                line=code.co_firstlineno,
                last_line=dissection.last_line(code),
                compile_id=compile_id,
                fate=fate,
                seconds=seconds,
                graphs=_graphs(traced, fate),
                breaks=breaks,
                guards=tuple(traced.guards),
                inlined=dissection.describe_inlined(traced.codes, code),
                error=error,
                resume_of=resumed_function(code.co_name),
            )
        )
        traced.clear()


def _graphs(traced: tracing.Traced, fate: str) -> tuple[Graph, ...]:
    """The frame's graphs; of a frame that was not compiled, how far its graph had come."""
    if traced.graphs or traced.unfinished is None or fate == "compiled":
        return tuple(traced.graphs)
    return (traced.unfinished,)


def _describe(attempt: hooks.Attempt) -> ErrorInfo | None:
    error = attempt.error
    if not isinstance(error, Exception) or failures.is_skip(error):
        return None
    soft = attempt.fate == "graph_break"
    return failures.describe(error, stage="graph_break" if soft else None, code=attempt.code)


def _breaks(attempt: hooks.Attempt, error: ErrorInfo | None) -> tuple[GraphBreak, ...]:
    inside = tuple(
        complaints.describe_break(one.reason, [failures.user_frame(*place) for place in one.stack])
        for one in attempt.breaks
    )
    if error is None or attempt.fate != "graph_break":
        return inside
    whole = complaints.describe_break(error.message, error.user_frames, kind=error.gb_type, whole_frame=True)
    return (*inside, whole)
