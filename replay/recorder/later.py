"""Failures that come after a frame was compiled, put in terms of the frame: which one, with which inputs.

A backward graph that is compiled late belongs to the forward that was compiled under the same id; an error of
running code to the innermost compiled frame that it came through. The inputs are those of the failing call where
it is still on the traceback, else those of the call that compiled the frame, as far as these are alive.
"""

from __future__ import annotations

from dataclasses import replace
from types import CellType, TracebackType

from replay.recorder import chain
from replay.recorder.capture import Later
from replay.recorder.history import Call, History, Past, Sketched, is_alive
from replay.torch_adapter import hooks, stances
from replay.torch_adapter import later as adapter

Found = tuple[hooks.Attempt, Later, TracebackType | None]
"""The frame as an attempt, what is particular to it, and where in the traceback it begins."""

OF_LAST = "of the last call that compiled the frame; tensors that are gone by metadata"
OF_COMPILATION = "of the call that compiled the frame; tensors that are gone by metadata"
OF_GRAPH = "of the running call: tensors that its graph writes to as before, those that earlier code wrote to as after"
OF_REFUSAL = "of the call that was refused"
OF_FAILURE = "read after the failure: tensors that the frame writes to may differ"


def of_backward(compile_id: str, error: BaseException, calls: History) -> Found | None:
    """The forward frame of a backward graph that failed to compile; None if it was compiled before the block."""
    call = calls.find(compile_id)
    return None if call is None else _past(call, error, None)


def of_last(call: Call) -> tuple[hooks.Attempt, Later] | None:
    """The frame as the call that compiled it got it; None if something of that is gone."""
    if call.frame is None or not is_alive(call):
        return None
    attempt = _again(call, call.frame, "compiled", None)
    later = Later(backward=False, call=call, stack=(), inputs=OF_LAST, values_matter=False)
    return attempt, later


def of_run(error: BaseException, calls: History) -> Found | None:
    """The frame whose compiled code raised, forward or backward; None if the error came through none."""
    compile_id, trace = adapter.failing_backward(error)
    if trace is not None:
        call = calls.find(compile_id) if compile_id is not None else calls.only()
        return None if call is None else _past(call, error, trace)
    refusal = stances.refusal(error)
    if refusal is not None:
        return None if calls.refused is None else _past(calls.refused, error, refusal, backward=False)
    live = adapter.failing_frame(error)
    return None if live is None else _live(*live, error, calls)


def of_running(calls: History, *, backward: bool = False) -> Found | None:
    """The compiled frame that this thread is running, while its graph runs; None if none was compiled in this block.

    `backward`: what is recorded may come in its backward as well.
    """
    stack = tuple(hooks.live_frames())
    found = _attempt(stack[0], stack, None, None, OF_GRAPH, calls) if stack else None
    return None if found is None else (found[0], replace(found[1], backward=backward), found[2])


def _past(
    call: Call, error: BaseException, trace: TracebackType | None, *, backward: bool = True
) -> Found | None:
    past = call.frame
    if past is None:
        return None
    inputs = OF_COMPILATION if backward else OF_REFUSAL
    attempt = _again(call, past, "raised", error)
    return attempt, Later(backward=backward, call=call, stack=(), inputs=inputs), trace


def _again(call: Call, past: Past, fate: hooks.Fate, error: BaseException | None) -> hooks.Attempt:
    """The attempt of an earlier call, of sketches."""
    return hooks.Attempt(
        code=past.code,
        f_globals=past.f_globals,
        f_locals={name: Sketched(value) for name, value in call.f_locals.items()},
        closure=tuple(CellType(Sketched(content)) for content in past.closure),
        converter=past.converter,
        compile_id=call.compile_id,
        fate=fate,
        error=error,
        seconds=0.0,
    )


def _live(live: hooks.LiveFrame, trace: TracebackType, error: BaseException, calls: History) -> Found | None:
    return _attempt(live, tuple(adapter.frames_of(error)), trace, error, OF_FAILURE, calls)


def _attempt(  # noqa: PLR0917 - the parts of what is found, in order
    live: hooks.LiveFrame,
    stack: tuple[hooks.LiveFrame, ...],
    trace: TracebackType | None,
    error: BaseException | None,
    inputs: str,
    calls: History,
) -> Found | None:
    call = calls.last(live.code)
    if call is None or call.frame is None:
        return None  # compiled before the block: how, is not known
    attempt = hooks.Attempt(
        code=live.code,
        f_globals=live.f_globals,
        f_locals=chain.variables(live, calls),
        closure=tuple(chain.cell(live.f_locals, name) for name in live.code.co_freevars),
        converter=call.frame.converter,
        compile_id=call.compile_id,
        fate="compiled" if error is None else "raised",
        error=error,
        seconds=0.0,
    )
    return attempt, Later(backward=False, call=call, stack=stack, inputs=inputs), trace
