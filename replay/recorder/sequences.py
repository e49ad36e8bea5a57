"""The calls that compiled a frame, as its bundle tells them, and the bundles that a block has of such frames.

There is one bundle for each frame. It is written when the frame is compiled for the second time, and again with one
more call each time after that, in the place of the one before: so it is whole whatever becomes of the process, and
objects that die later were alive when it was written. How a bundle is written is decided in `capture`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType
from typing import Any

from replay import trust
from replay.bundle import Published, load, rewritten
from replay.recorder import describing, history
from replay.recorder.happenings import Happening
from replay.recorder.traffic import Flow
from replay.recording import CallInfo, SequenceInfo
from replay.torch_adapter import hooks


@dataclass(frozen=True, slots=True)
class Kept:
    """The bundle of one frame."""

    file: Published | None  # None: another process of the block has written it
    path: Path
    calls: int
    code: CodeType | None
    counted: int = 0  # calls of all kinds that it tells of

    def is_outgrown(self, calls: int) -> bool:
        """Whether a bundle with so many calls tells more."""
        return self.file is not None and calls > self.calls


def length(attempt: hooks.Attempt, calls: history.History) -> int:
    """How many calls of the frame are known, with this one. A reset of the compiler begins anew."""
    return len(calls.before(attempt)) + calls.dropped(attempt.code) + 1


def infos(code: CodeType, calls: Sequence[history.Call]) -> tuple[CallInfo, ...]:
    """What the manifest says of calls of one frame, oldest first."""
    return tuple(_call_info(code, call, calls[0].state) for call in calls)


def info(
    attempt: hooks.Attempt,
    happening: Happening,
    calls: history.History,
    earlier: Sequence[history.Call],
    last: history.Call | None,
) -> SequenceInfo | None:
    """What the manifest says of the sequence; None for what is no recompilation. `last`: this call; None: not noted."""
    if happening.event != "recompile":
        return None
    last = last or calls.sketched(attempt)
    first = earlier[0] if earlier else last
    return SequenceInfo(
        fingerprint=happening.sequence,
        last=_call_info(attempt.code, last, first.state),
        dropped=calls.dropped(attempt.code),
    )


def counted(kept: Kept, flow: Flow) -> Kept:
    """The bundle with all calls of its frame in the manifest; everything else in it stays. Raises BundleError."""
    file = kept.file
    if file is None or not file.is_there():
        return kept
    total = flow.total
    with load(file.path) as bundle:
        sequence = bundle.manifest.sequence
        if sequence is None:
            return kept
        manifest = replace(bundle.manifest, sequence=replace(sequence, traffic=flow.told()))
        file = rewritten(bundle, manifest, file, sign=trust.successor_signer(bundle))
    return replace(kept, file=file, path=file.path, counted=total)


def _call_info(code: CodeType, call: history.Call, first: Mapping[str, Any]) -> CallInfo:
    return CallInfo(
        compile_id=call.compile_id,
        inputs=describing.sketched(code, call.f_locals)
        + describing.noted(call.seen.closure or {}, call.seen.globals or {}),
        grad_enabled=call.grad_enabled,
        started=round(call.started, 6),
        seconds=round(call.seconds, 6),
        fingerprint=call.fingerprint,
        reasons=call.reasons,
        state={key: value for key, value in call.state.items() if first.get(key) != value},
        limit=call.limit,
    )
