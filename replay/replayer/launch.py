"""`run()`: a bundle and overrides in, an outcome out.

This side checks what can be checked without torch, starts the child and turns its ending into an outcome. The
replay itself lives in `replay.replayer.session`, which runs in the child, or here with `isolate=False`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from replay import fingerprint, isolation
from replay.bundle import Bundle, load
from replay.errors import BundleError, MissingError, ReplayError, UnsupportedTorchError, UsageError
from replay.plain import from_plain
from replay.recording import DIED, ErrorInfo, Outcome, Stage
from replay.replayer import asking, boxing, publishing
from replay.selection import Pattern
from replay.trust import admit

TIMEOUT = 1800.0
"""Seconds after which a child is stopped, unless told otherwise."""

OVER_FAKES = "compile over fakes"
"""The phase of a try over fake CUDA tensors. What ends the process there need not do so on the CPU."""

UNCOMPILED_RUN = "run uncompiled"
"""The phase in which the frame runs as it is, or in float64: what ends the process there is no fault of a compiler."""

_ERRORS = {
    kind.__name__: kind
    for kind in (BundleError, MissingError, ReplayError, UnsupportedTorchError, UsageError)
}
_BROKEN = {
    "timeout": "Timeout",
    "memory": "OutOfMemory",
    "processes": "TooManyProcesses",
    "files": "TooManyBytesWritten",
}
"""What is said in place of an exception's type where a limit ended the process."""


def run(
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
    compare: bool = False,
    tolerance: float | None = None,
    logs: str | None = None,
    timeout: float | None = TIMEOUT,
    artifacts: str | os.PathLike[str] | None = None,
    pdb: bool = False,
    isolate: bool = True,
    verbose: int = 0,
    trust: bool | None = None,
    sandbox: bool | None = None,
) -> Outcome:
    """Replay the frame of a bundle and say what happened.

    `backend`: a registered name or `module:attribute`; None: the recorded one; "uncompiled": none at all.
    `function`: compile only functions of that name. `backward`: differentiate the output too. `config`:
    {"dynamo.suppress_errors": True}. `env`: variables of the replay; None: not set. `without`: recorded settings that
    the replay does without, by the names that `ablate` gives them ("state.autocast"). `device`: "cpu", "cuda" or
    "cuda:N": everything goes there. `fake`: fake tensors in place of real ones: compile, and run nothing.
    `artifacts`: a new directory, for everything that torch makes on the way; an index in it says what is what.
    `compare`: hold the frame against itself uncompiled and in float64: outputs, inputs that it writes to, gradients.
    `tolerance`: as torch's accuracy tools mean it; None: the recording's, or else torch's.
    `timeout`: seconds; None or 0: no limit. `isolate`: in a child process, where a crash, a hang or a memory blow-up
    becomes an outcome; False: in this process, for a debugger or a notebook. What is not given is as recorded.

    A replay runs code of the bundle. One that this user recorded on this machine, or that lies in a trusted directory,
    is replayed at once; any other in a sandbox. `trust`: at once in any case. `sandbox`: in a sandbox in any case;
    False: never. See `replay.trust.policy`.

    Raises BundleError for an unreadable file, UsageError for an option that cannot be honoured, UntrustedError for a
    bundle that nobody vouches for, where there is no sandbox. What the replay lacks is no exception but the status
    "missing".
    """
    asked = {
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
        "compare": compare,
        "tolerance": tolerance,
        "logs": logs,
        "pdb": pdb,
    }

    def replayed(instruments: Mapping[str, Mapping[str, Any]]) -> Observed:
        return observe(
            bundle,
            instruments,
            asked,
            timeout=timeout,
            isolate=isolate,
            verbose=verbose,
            trust=trust,
            sandbox=sandbox,
        )

    if artifacts is None:
        return replayed({}).outcome
    return publishing.published(Path(artifacts), replayed)


@dataclass(frozen=True, slots=True)
class Observed:
    """An outcome, and what each instrument found (plain data, by the instrument's name)."""

    outcome: Outcome
    found: Mapping[str, Any]


def observe(
    bundle: Bundle | str | os.PathLike[str],
    instruments: Mapping[str, Mapping[str, Any]],
    options: Mapping[str, Any],
    *,
    timeout: float | None = TIMEOUT,
    isolate: bool = True,
    verbose: int = 0,
    trust: bool | None = None,
    sandbox: bool | None = None,
    call: Callable[..., isolation.ChildResult] | None = None,
    stop: threading.Event | None = None,
    shared: Sequence[Path] = (),
) -> Observed:
    """Replay with instruments attached. `options`: those keyword arguments of `run` that say what is replayed.

    `instruments`: name -> options, see `replay.replayer.instruments`. `call`: what runs a function in a child process,
    in place of `isolation.call`; `stop`, once set, ends it. `shared`: directories that a sandbox may write to.
    `trust`, `sandbox`: as `run` takes them. A child that did not live to answer has found nothing.
    """
    path = Path(bundle.path if isinstance(bundle, Bundle) else bundle)
    opened = bundle if isinstance(bundle, Bundle) else load(path)
    try:
        admitted = admit(opened, trust=trust, sandbox=sandbox, isolate=isolate)
        request = asking.build(path, opened.manifest, instruments, options)
        request["digest"] = opened.digest  # the file may become another one before it is replayed
        asking.settle_comparison(request, opened.manifest)
        if not isolate:
            from replay.replayer import session

            outcome, found = session.replay(request)
        else:
            if timeout is not None and timeout < 0:
                raise UsageError(f"--timeout {timeout:g}: must be a number of seconds, or 0 for no limit")
            call = call or isolation.call
            if admitted.sandboxed:
                call = boxing.caller(request, shared)
            outcome, found = _isolated(request, opened, _Child(call, timeout, verbose, stop))
        if admitted.sandboxed:
            outcome = boxing.noted(outcome, opened.manifest, request, admitted)
        return Observed(replace(outcome, bundle=str(path)), found)
    finally:
        if not isinstance(bundle, Bundle):
            opened.close()


@dataclass(frozen=True, slots=True)
class _Child:
    """How the child process is run."""

    call: Callable[..., isolation.ChildResult]
    timeout: float | None
    verbose: int
    stop: threading.Event | None = None


def _isolated(request: dict[str, Any], bundle: Bundle, child: _Child) -> tuple[Outcome, dict[str, Any]]:
    result = child.call(
        "replay.replayer.session:answer",
        asking.to_send(request),
        environment=request["env"],
        timeout=None if request["pdb"] else child.timeout,
        terminal=bool(child.verbose > 1 or request["logs"]),
        interactive=request["pdb"],
        stop=child.stop,
    )
    if result.ending == "crashed" and result.phase == OVER_FAKES and "without_fakes" not in request:
        again, found = _isolated({**request, "without_fakes": True}, bundle, child)
        note = f"over fake CUDA tensors it ended: {result.reason}"
        return replace(again, notes=(*again.notes, note)), found
    if result.ending != "answered":
        return _ended(bundle, request, result), {}
    return _read(result.answer, bundle)


def _read(answer: Any, bundle: Bundle) -> tuple[Outcome, dict[str, Any]]:
    """What `session.answer` says. In a sandbox, the bundle's code may have answered in its place."""
    try:
        if "raised" in answer:
            raise _ERRORS[answer["raised"]](answer["message"])
        outcome = from_plain(answer["outcome"], Outcome, strict=False)
        return outcome, from_plain(answer["found"], dict[str, Any])
    except (KeyError, TypeError, msgspec.ValidationError):
        raise ReplayError(f"{bundle.path}: the replaying process gave no answer that makes sense") from None


def _ended(bundle: Bundle, request: Mapping[str, Any], result: isolation.ChildResult) -> Outcome:
    """The outcome of a child that did not live to answer."""
    recorded = bundle.manifest.error
    if result.ending == "stopped":
        raise ReplayError(f"{bundle.path}: the replay was given up")
    if result.phase in ("", "load"):
        if result.ending == "timeout":
            raise ReplayError(
                f"{bundle.path}: after {result.reason} nothing was compiled yet; raise --timeout"
            )
        raise ReplayError(
            f"{bundle.path}: the replaying process ended ({result.ending}: {result.reason}) before it compiled "
            f"anything; the end of its output:\n{result.stderr.strip()}"
        )
    if result.phase == UNCOMPILED_RUN:
        raise ReplayError(
            f"{bundle.path}: the process ended ({result.ending}: {result.reason}) while the frame ran uncompiled, "
            "to be compared with; leave out --compare"
        )
    kind = {"crashed": result.reason, **_BROKEN}[result.ending]
    stage: Stage = "runtime" if result.phase == "run" else "backend"
    error = ErrorInfo(
        type=kind,
        message=f"the replaying process ended while it was in phase {result.phase!r}: {result.ending}, {result.reason}",
        stage=stage,
        fingerprint=fingerprint.compute(stage=stage, type=kind),
        traceback=result.stderr,
    )
    same = recorded is not None and (
        fingerprint.same(recorded.fingerprint, error.fingerprint, same_torch=False)
        or (recorded.type == DIED and result.ending in ("crashed", "memory"))
    )
    return Outcome(
        bundle=str(bundle.path),
        status="reproduced" if same else "different",
        backend=request["backend"] or bundle.manifest.compile.backend,
        function=bundle.manifest.frame.function,
        error=error,
        recorded_error=recorded,
        seconds={"load": 0.0, "compile": 0.0, "run": 0.0, "total": result.seconds},
    )
