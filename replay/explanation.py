"""`explain()`: what the compiler made of a bundle's frame. Replays it once, with an instrument that takes notes.

Nothing here prints or parses arguments; `replay.report.explanation` draws what comes of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from replay.bundle import Bundle, load
from replay.errors import UsageError
from replay.findings.explanation import ExplainedFrame, Explanation
from replay.plain import from_plain
from replay.recording import Outcome
from replay.replayer import Observed, observe
from replay.replayer.launch import TIMEOUT
from replay.selection import Pattern

FALLBACK = "eager"
"""The backend that explains where the recorded one ends the process: Dynamo's part is the same under both."""

INSTRUMENT = "explain"


def explain(
    bundle: Bundle | str | os.PathLike[str],
    backend: str | None = None,
    *,
    function: Pattern | Sequence[Pattern] = (),
    recompile_limit: int | None = None,
    accumulated_recompile_limit: int | None = None,
    dynamic: bool | None = None,
    fullgraph: bool | None = None,
    backward: bool | None = None,
    mode: str | None = None,
    config: Mapping[str, Any] | None = None,
    env: Mapping[str, str | None] | None = None,
    without: Sequence[str] = (),
    device: str | None = None,
    fake: bool = False,
    logs: str | None = None,
    timeout: float | None = TIMEOUT,
    isolate: bool = True,
    verbose: int = 0,
    trust: bool | None = None,
    sandbox: bool | None = None,
) -> Explanation:
    """Replay the frame of a bundle and say what became of it: graphs, graph breaks, guards, inlined functions.

    The arguments are those of `replay.run`. Where no backend is given and the recorded one ends the process, the
    frame is explained under "eager", and a note says so. A replay that lacks something comes back without frames;
    its `outcome` has the status "missing". Raises what `run` raises.
    """
    if backend == "uncompiled":
        raise UsageError("--backend uncompiled: nothing is compiled then, so there is nothing to explain")
    options = {
        "backend": backend,
        "function": function,
        "recompile_limit": recompile_limit,
        "accumulated_recompile_limit": accumulated_recompile_limit,
        "dynamic": dynamic,
        "fullgraph": fullgraph,
        "backward": backward,
        "mode": mode,
        "config": config,
        "env": env,
        "without": without,
        "device": device,
        "fake": fake,
        "logs": logs,
    }
    how = _How(options, timeout, isolate, verbose, trust, sandbox)
    opened = bundle if isinstance(bundle, Bundle) else load(Path(bundle))
    try:
        return _explain(opened, how)
    finally:
        if not isinstance(bundle, Bundle):
            opened.close()


@dataclass(frozen=True, slots=True)
class _How:
    """How the bundle is to be replayed."""

    options: Mapping[str, Any]
    timeout: float | None
    isolate: bool
    verbose: int
    trust: bool | None
    sandbox: bool | None

    def observe(self, bundle: Bundle, **changed: Any) -> Observed:
        return observe(
            bundle,
            {INSTRUMENT: {}},
            {**self.options, **changed},
            timeout=self.timeout,
            isolate=self.isolate,
            verbose=self.verbose,
            trust=self.trust,
            sandbox=self.sandbox,
        )


def _explain(bundle: Bundle, how: _How) -> Explanation:
    observed = how.observe(bundle)
    outcome, found = observed.outcome, observed.found.get(INSTRUMENT)
    notes: tuple[str, ...] = ()
    if found is None and outcome.status != "missing":
        ended = _ending(outcome)
        if how.options["backend"] is not None or how.options["mode"] is not None:
            notes = (f"{ended}; nothing is known of its graphs. --backend {FALLBACK} can tell them",)
        else:
            found = how.observe(bundle, backend=FALLBACK).found.get(INSTRUMENT)
            notes = (f"{ended}; what follows was found under {FALLBACK}",)
    if found is not None and found["own"]:
        notes = (*notes, f"{found['own']} frames of replay's own, in place of a device, are left out")
    return _made(bundle, outcome, found or {}, notes)


def _ending(outcome: Outcome) -> str:
    why = outcome.error.type if outcome.error is not None else "no reason is known"
    return f"under {outcome.backend} the process ended ({why})"


def _made(bundle: Bundle, outcome: Outcome, found: Mapping[str, Any], notes: tuple[str, ...]) -> Explanation:
    frames = from_plain(found.get("frames", []), tuple[ExplainedFrame, ...], strict=False)
    return Explanation(
        bundle=str(bundle.path),
        function=outcome.function,
        backend=outcome.backend,
        torch=found.get("torch", ""),
        outcome=replace(outcome, bundle=str(bundle.path)),
        frames=frames,
        unknown=tuple(found.get("unknown", ())),
        notes=notes,
        texts=_texts(bundle, frames),
    )


def _texts(bundle: Bundle, frames: Sequence[ExplainedFrame]) -> dict[str, str]:
    """The recorded text of each file that the frames and what they inlined are in."""
    found = {}
    inlined = (one.file for frame in frames for one in frame.inlined)
    for name in dict.fromkeys([*(frame.file for frame in frames), *inlined]):
        text = bundle.source_for(name)
        if text is not None:
            found[name] = text
    return found
