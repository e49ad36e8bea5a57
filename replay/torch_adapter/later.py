"""Failures that come after a frame was compiled: its backward graph compiled late, or its code raising while it runs.

Neither passes through the compiler's hook. A backward that is compiled when `.backward()` runs is seen by a
wrapper around the context in which AOTAutograd compiles it, which knows the forward's compile id. An error of
running code needs no hook: its traceback goes through code that Dynamo generated.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType, TracebackType
from typing import Any

from replay.torch_adapter import features, stances
from replay.torch_adapter.hooks import LiveFrame

BackwardObserver = Callable[[str, BaseException], None]
"""Gets the forward's compile id and the error."""

_lock = threading.RLock()
_observers: list[BackwardObserver] = []
_original: list[Any] = []


@contextmanager
def observing_backward(observer: BackwardObserver) -> Iterator[None]:
    """Call `observer` when a backward graph fails to compile after its forward has run. It must not raise."""
    with _lock:
        if not _observers:
            _install()
        _observers.append(observer)
    try:
        yield
    finally:
        with _lock:
            _observers.remove(observer)
            if not _observers:
                _wrappers().compile_context = _original.pop()


def _wrappers() -> Any:
    return features.module("torch._functorch._aot_autograd.runtime_wrappers")


def _install() -> None:
    wrappers = _wrappers()
    original = features.require(wrappers, "compile_context")
    _original.append(original)

    @contextmanager
    def compile_context(context: Any) -> Iterator[Any]:
        with original(context) as entered:
            try:
                yield entered
            except Exception as error:
                _notify(context, error)
                raise

    wrappers.compile_context = compile_context


def _notify(context: Any, error: BaseException) -> None:
    compile_id = getattr(context, "compile_id", None)
    if compile_id is None:
        return
    with _lock:
        observers = tuple(reversed(_observers))
    for observer in observers:
        observer(short_id(compile_id), error)


def short_id(compile_id: Any) -> str:
    """As "3/1": torch's compile id without what compiled autograd puts before it and the attempt's number after."""
    return f"{compile_id.frame_id}/{compile_id.frame_compile_id}"


def place_of(error: BaseException) -> TracebackType | None:
    """The part of a traceback that is the failing frame's, where the error is one of running code."""
    live = failing_frame(error)
    return failing_backward(error)[1] or (live[1] if live else None) or stances.refusal(error)


def failing_frame(error: BaseException) -> tuple[LiveFrame, TracebackType] | None:
    """The innermost frame of generated code that an error came through, and its place in the traceback."""
    original = features.require(features.module("torch._dynamo.convert_frame"), "orig_code_map")
    found = None
    for trace in _steps(error):
        frame = trace.tb_frame
        code = original.get(frame.f_code)
        if code is not None:
            found = _live(code, frame), trace
    return found


def is_generated(code: CodeType) -> bool:
    """Whether Dynamo made the code object: it bears the program's file and name, and few of its lines."""
    original = features.require(features.module("torch._dynamo.convert_frame"), "orig_code_map")
    return code in original


def frames_of(error: BaseException) -> list[LiveFrame]:
    """The compiled frames that an error came through, innermost first."""
    original = features.require(features.module("torch._dynamo.convert_frame"), "orig_code_map")
    frames = []
    for trace in _steps(error):
        code = original.get(trace.tb_frame.f_code)
        if code is not None:
            frames.append(_live(code, trace.tb_frame))
    return frames[::-1]


def failing_backward(error: BaseException) -> tuple[str | None, TracebackType | None]:
    """The forward's compile id of a compiled backward that raised, and its place in the traceback.

    No place: the error came through no compiled backward. No id: AOTAutograd had the backward from its cache.
    """
    compile_id, place = None, None
    for trace in _steps(error):
        if trace.tb_frame.f_code.co_name == "backward" and _is_wrappers(trace.tb_frame.f_code.co_filename):
            place = trace
        compile_id = _backward_id(trace.tb_frame.f_locals) or compile_id
    return compile_id, place


def _live(code: CodeType, frame: FrameType) -> LiveFrame:
    return LiveFrame(code, frame.f_globals, frame.f_locals, frame.f_code)


def _steps(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_wrappers(filename: str) -> bool:
    wrappers = sys.modules.get("torch._functorch._aot_autograd.runtime_wrappers")
    return wrappers is not None and filename == wrappers.__file__


def _backward_id(variables: Mapping[str, Any]) -> str | None:
    """The id among the variables of one frame of a compiled backward.

    torch >= 2.12 keeps what it needed to compile the backward late in `backward_compiler.lazy_backward_info`; before,
    the frame has a variable `lazy_backward_info`, or its content.
    """
    compiler = variables.get("backward_compiler")
    holders = (variables.get("lazy_backward_info"), getattr(compiler, "lazy_backward_info", None))
    contexts = (
        variables.get("saved_compile_context"),
        *(getattr(x, "saved_compile_context", None) for x in holders),
    )
    for context in contexts:
        compile_id = getattr(context, "compile_id", None)
        if compile_id is not None:
            return short_id(compile_id)
    return None
