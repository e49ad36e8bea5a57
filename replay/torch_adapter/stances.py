"""The stances of `torch.compiler.set_stance`: which one is on, and the failure that one of them makes.

Under `fail_on_recompile` no attempt is made, so the compiler's hook sees nothing: the refusal is seen where torch
asks whether the frame holds a tensor, which it does on every cache miss, and never else. Its error is told from
others by its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from replay.torch_adapter import features

REFUSES = "fail_on_recompile"
_REFUSAL = "fail_callback"
"""The function in torch/_dynamo/eval_frame.py that raises (torch 2.9 to 2.15)."""


def current() -> str:
    """The stance's name; "default" unless somebody set another."""
    eval_frame = features.module("torch._dynamo.eval_frame")
    return str(features.require(features.require(eval_frame, "_stance"), "stance"))


@contextmanager
def refusing(stance: str | None) -> Iterator[None]:
    """Refuse to compile anew, if that was the recorded stance.

    The other stances are not set again: they only say when a frame is compiled, and the recorded one was.
    """
    if stance != REFUSES:
        yield
        return
    with features.module("torch").compiler.set_stance(REFUSES):
        yield


@contextmanager
def uncompiled() -> Iterator[None]:
    """Inside, whatever torch.compile made runs as if it had not been compiled."""
    with features.module("torch").compiler.set_stance("force_eager"):
        yield


def install(refused: Callable[[Any, Any], None]) -> Callable[[], None]:
    """Call `refused(frame, converter)` for each frame that is refused; returns what puts torch back."""
    convert_frame: Any = features.module("torch._dynamo.convert_frame")
    original = features.require(convert_frame, "has_tensor_in_frame")

    def has_tensor_in_frame(frame: Any) -> Any:
        found = original(frame)
        caller = sys._getframe(1)
        if found and caller.f_code.co_name == _REFUSAL:
            converter = _converter(caller)
            if converter is not None:
                refused(frame, converter)
        return found

    convert_frame.has_tensor_in_frame = has_tensor_in_frame

    def put_back() -> None:
        convert_frame.has_tensor_in_frame = original

    return put_back


def _converter(frame: FrameType | None) -> Any:
    """torch's ConvertFrameAssert, within the callback of the compiled function that was called; None if not found."""
    kind = features.require(features.module("torch._dynamo.convert_frame"), "ConvertFrameAssert")
    own = features.module("torch._dynamo.eval_frame").__file__
    while frame is not None and (frame.f_code.co_filename != own or "callback" not in frame.f_locals):
        frame = frame.f_back  # before torch 2.12 the refusing function itself does not name it
    found = None if frame is None else frame.f_locals["callback"]
    while found is not None and not isinstance(found, kind):
        found = getattr(found, "_inner_convert", None) or getattr(found, "_torchdynamo_orig_backend", None)
    return found


def refusal(error: BaseException) -> TracebackType | None:
    """Where in an error's traceback a frame was refused; None for any other error."""
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    trace, found = error.__traceback__, None
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == _REFUSAL and eval_frame is not None and code.co_filename == eval_frame.__file__:
            found = trace
        trace = trace.tb_next
    return found


def dynamism(code: Any) -> dict[str, Any] | None:
    """Which inputs earlier calls showed to be dynamic, where a stance ran them uncompiled; None: nothing is known."""
    holder = _holder()
    found = holder.get_context(code).get("dynamism") if holder.has_context(code) else None
    return None if found is None else dict(found)


def set_dynamism(code: Any, known: Mapping[str, Any] | None) -> None:
    """Let Dynamo know of a code object what `dynamism` found."""
    if known is not None:
        _holder().get_context(code)["dynamism"] = dict(known)


def _holder() -> Any:
    return features.require(features.module("torch._dynamo.code_context"), "code_context")
