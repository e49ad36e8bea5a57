"""Observe every attempt of Dynamo to compile a frame, and veto some.

Dynamo calls `ConvertFrameAssert.__call__` once per cache miss, for root frames, resume functions and nested
frames alike; `ConvertFrame.__call__` wraps it where a failure may fall back to eager. Both are replaced on
their classes while somebody observes, and put back with the last observer. Cache hits never reach Python, so
observing costs a compiled call nothing.

No data is kept here and nothing is written: observers get an `Attempt` while the frame is alive.
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import CellType, CodeType
from typing import Any, Literal

from replay.torch_adapter import entries, features, stances

Fate = Literal["begun", "compiled", "skipped", "raised", "suppressed", "graph_break", "refused"]
"""What became of an attempt. `begun`: not known yet; `suppressed`: an error that `suppress_errors` hid;
`graph_break`: a failure that Dynamo turned into running the frame uncompiled; `refused`: the stance
`fail_on_recompile` let nobody try."""


@dataclass(frozen=True, slots=True)
class Break:
    """A graph break inside a frame that was compiled up to it."""

    reason: str  # torch's text; its first line names the kind
    stack: tuple[tuple[str, int, str], ...]  # file, line and function of the user's code, outermost first


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to compile a frame; valid only while the observer runs."""

    code: CodeType
    f_globals: dict[str, Any]
    f_locals: Mapping[str, Any]  # as before the first instruction
    closure: tuple[CellType, ...]
    converter: Any  # torch's ConvertFrameAssert
    compile_id: str | None  # "3/1": frame 3, compiled for the second time
    fate: Fate
    error: BaseException | None
    seconds: float
    breaks: tuple[Break, ...] = ()
    entry: entries.Entry | None = None  # where this is a way in that is no compiled function's call
    reasons: tuple[
        str, ...
    ] = ()  # of a frame that has compiled code: why each of it does not fit, in torch's words

    @property
    def fullgraph(self) -> bool:
        """Whether a graph break is an error."""
        box = getattr(self.converter, "_box", None)
        on_break = getattr(box, "error_on_graph_break", None)
        return bool(features.require(self.converter, "_one_graph")) or on_break is True


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """A frame that runs code which Dynamo generated, with the user's code that it stands for."""

    code: CodeType
    f_globals: dict[str, Any]
    f_locals: Mapping[str, Any]  # of the generated code: arguments may have been rebound
    generated: CodeType


def live_frames() -> Iterator[LiveFrame]:
    """The compiled frames of this thread's stack, innermost first."""
    original = features.require(features.module("torch._dynamo.convert_frame"), "orig_code_map")
    frame = sys._getframe(1)
    while frame is not None:
        code = original.get(frame.f_code)
        if code is not None:
            yield LiveFrame(code, frame.f_globals, frame.f_locals, frame.f_code)
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop


def own_limit(attempt: Attempt) -> int | None:
    """The recompile limit that was given to this one torch.compile (torch >= 2.12); None for the config's."""
    limit = getattr(attempt.converter, "_recompile_limit", None)
    return None if limit is None else int(limit)


def graph_breaks() -> int:
    """Graph breaks that Dynamo has counted in this process since its counters were cleared."""
    counters = features.require(features.module("torch._dynamo.utils"), "counters")
    return sum(counters["graph_break"].values())


def graphs() -> int:
    """Graphs that a backend has compiled in this process since Dynamo's counters were cleared."""
    counters = features.require(features.module("torch._dynamo.utils"), "counters")
    return int(counters["stats"]["unique_graphs"])


def recompile_reason(attempt: Attempt) -> str:
    """The guard that failed, in torch's words, of a frame that was compiled again just now; empty if unknown."""
    if attempt.reasons:
        return attempt.reasons[0]
    compile_id = attempt.compile_id
    metrics = features.require(features.module("torch._dynamo.utils"), "get_compilation_metrics")()
    for one in reversed(metrics):
        if str(one.compile_id).endswith(compile_id or "?"):
            return str(one.recompile_reason or "")
    return ""


Observer = Callable[[Attempt], None]
Gate = Callable[[CodeType], bool]
Wrapper = Callable[[Any, CodeType], Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Watch:
    """What one caller of `observing` asked for."""

    observer: Observer
    gate: Gate | None
    before: Observer | None
    wrap: Wrapper | None


_lock = threading.RLock()
_watches: list[_Watch] = []
_originals: dict[str, Callable[..., Any]] = {}
_undo: list[Callable[[], None]] = []
_local = threading.local()
_REASONS = "get_and_maybe_log_recompilation_reasons"
"""What torch/_dynamo/convert_frame.py calls for a frame that has compiled code already (torch 2.9 to 2.13)."""


@contextmanager
def observing(
    observer: Observer,
    gate: Gate | None = None,
    *,
    before: Observer | None = None,
    wrap: Wrapper | None = None,
) -> Iterator[None]:
    """Call `observer` after every attempt, in the compiling thread, innermost observer first.

    `gate(code)` false: the frame runs uncompiled and no attempt is made or observed. `before` gets the attempt, its
    fate "begun", ahead of it. `wrap(backend, code)` gives the backend that the frame is compiled with in place of its
    own; guards still see its own. None of them may raise. Raises UnsupportedTorchError before anything is
    patched if the hooks are not as we know them.
    """
    watch = _Watch(observer, gate, before, wrap)
    with _lock:
        if not _originals:
            features.check_hooks()
            _install()
        _watches.append(watch)
    try:
        yield
    finally:
        with _lock:
            _watches.remove(watch)
            if not _watches:
                _uninstall()


def _install() -> None:
    convert_frame = features.module("torch._dynamo.convert_frame")
    for name, wrap in (("ConvertFrameAssert", _wrap_assert), ("ConvertFrame", _wrap_soft)):
        owner = getattr(convert_frame, name)
        _originals[name] = owner.__call__
        owner.__call__ = wrap(owner.__call__, convert_frame)
    _undo.append(entries.install(_entry_failed, _notify))
    _undo.append(stances.install(_refused))
    _undo.append(_install_reasons(convert_frame))


def _install_reasons(convert_frame: Any) -> Callable[[], None]:
    """Keep what torch finds out of why a frame is compiled again: its own metrics hold only the first reason."""
    original = getattr(convert_frame, _REASONS, None)
    if original is None:
        return lambda: None  # then the metrics' reason is all that is known

    @functools.wraps(original)
    def get_reasons(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        _local.reasons = tuple(map(str, found or ()))
        return found

    setattr(convert_frame, _REASONS, get_reasons)
    return lambda: setattr(convert_frame, _REASONS, original)


def _uninstall() -> None:
    while _undo:
        _undo.pop()()
    convert_frame = features.module("torch._dynamo.convert_frame")
    for name, original in _originals.items():
        getattr(convert_frame, name).__call__ = original
    _originals.clear()


def _wrap_assert(original: Callable[..., Any], convert_frame: Any) -> Callable[..., Any]:
    """The hook around one attempt. Its error, if any, is reported here, or by the soft wrapper outside."""
    skipped = convert_frame.ConvertFrameReturn

    @functools.wraps(original)
    def __call__(  # noqa: N807 - its name in tracebacks
        self: Any, frame: Any, cache_entry: Any, hooks: Any, frame_state: Any, **kwargs: Any
    ) -> Any:
        if any(watch.gate is not None and not watch.gate(frame.f_code) for watch in _watches):
            return skipped()
        begun = _attempt(self, frame, frame_state, _reasons())
        for watch in _innermost_first():
            if watch.before is not None:
                watch.before(begun())
        outer, _local.reasons = _local.__dict__.get("reasons", ()), ()
        started = time.perf_counter()
        try:
            result = original(_wrapped(self, frame.f_code), frame, cache_entry, hooks, frame_state, **kwargs)
        except BaseException as error:
            attempt = begun("raised", error, time.perf_counter() - started)
            soft = getattr(_local, "soft", None)
            if soft and soft[-1] == [self]:
                soft[-1].append(attempt)  # its fate is known one level up
            else:
                _notify(attempt)
            raise
        else:
            fate: Fate = "skipped" if getattr(result, "guarded_code", result) is None else "compiled"
            _notify(begun(fate, None, time.perf_counter() - started))
            return result
        finally:
            _local.reasons = outer

    return __call__


def _wrap_soft(original: Callable[..., Any], convert_frame: Any) -> Callable[..., Any]:
    """The hook around an attempt whose failure may be swallowed."""

    @functools.wraps(original)
    def __call__(  # noqa: N807 - its name in tracebacks
        self: Any, *args: Any, **kwargs: Any
    ) -> Any:
        soft = _local.soft = getattr(_local, "soft", None) or []
        soft.append([features.require(self, "_inner_convert")])
        raised = True
        try:
            result = original(self, *args, **kwargs)
            raised = False
            return result
        finally:
            _, *attempts = soft.pop()
            for attempt in attempts:
                _notify(attempt if raised else _swallowed(attempt))

    return __call__


def _swallowed(attempt: Attempt) -> Attempt:
    exc = features.module("torch._dynamo.exc")
    config = features.module("torch._dynamo.config")
    soft = isinstance(attempt.error, (exc.Unsupported, exc.UserError)) or not config.suppress_errors
    fate: Fate = "graph_break" if soft else "suppressed"
    return replace(attempt, fate=fate)


def _wrapped(converter: Any, code: CodeType) -> Any:
    """The converter, or a copy of it with the backend wrapped; torch's own stays as it is for other threads.

    An export's backend is left alone.
    """
    wraps = [watch.wrap for watch in _innermost_first() if watch.wrap is not None]
    if not wraps or getattr(converter, "_export", False):
        return converter
    backend = features.require(converter, "_torchdynamo_orig_backend")
    for wrap in reversed(wraps):
        backend = wrap(backend, code)
    changed = copy.copy(converter)
    changed._torchdynamo_orig_backend = backend
    return changed


def _attempt(converter: Any, frame: Any, frame_state: Any, known: int) -> Callable[..., Attempt]:
    """Makes the Attempt of a frame when its fate is known. `known`: graph breaks that were counted before."""

    def make(fate: Fate = "begun", error: BaseException | None = None, seconds: float = 0.0) -> Attempt:
        return Attempt(
            code=frame.f_code,
            f_globals=frame.f_globals,
            f_locals=frame.f_locals,
            closure=tuple(frame.closure or ()),
            converter=converter,
            compile_id=None if fate == "begun" else _compile_id(frame_state),
            fate=fate,
            error=error,
            seconds=seconds,
            breaks=() if fate == "begun" else _breaks(known),
            reasons=() if fate == "begun" else _local.__dict__.get("reasons", ()),
        )

    return make


def _reasons() -> int:
    """How many graph breaks inside frames torch has listed."""
    return len(features.require(features.module("torch._dynamo.utils"), "graph_break_reasons"))


def _breaks(known: int) -> tuple[Break, ...]:
    """The graph breaks that were listed since; torch drops its list on a reset."""
    listed = features.module("torch._dynamo.utils").graph_break_reasons
    return tuple(
        Break(str(one.reason), tuple((at.filename, at.lineno or 0, at.name) for at in one.user_stack))
        for one in (listed[known:] if len(listed) >= known else listed)
    )


def _compile_id(frame_state: Any) -> str | None:
    number = frame_state.get("_id") if isinstance(frame_state, dict) else None
    if number is None:
        return None
    counter = getattr(features.module("torch._dynamo.convert_frame"), "FRAME_COMPILE_COUNTER", {})
    return f"{number}/{counter[number] - 1}" if number in counter else f"{number}/?"


def _refused(frame: Any, converter: Any) -> None:
    _notify(_attempt(converter, frame, None, _reasons())("refused"))


def _entry_failed(
    entry: entries.Entry, traced: entries.Traced, converter: entries.Converter, error: BaseException
) -> None:
    _notify(
        Attempt(
            code=traced.code,
            f_globals=traced.f_globals,
            f_locals=traced.f_locals,
            closure=traced.closure,
            converter=converter,
            compile_id=None,
            fate="raised",
            error=error,
            seconds=0.0,
            entry=entry,
        )
    )


def _innermost_first() -> tuple[_Watch, ...]:
    with _lock:
        return tuple(reversed(_watches))


def _notify(attempt: Attempt) -> None:
    if attempt.fate == "raised" and attempt.entry is None and entries.held(attempt):
        return  # told with the entry that it fails, or when that went well
    for watch in _innermost_first():
        watch.observer(attempt)
