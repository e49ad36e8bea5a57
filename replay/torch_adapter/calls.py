"""Calls of compiled functions as they are made, also those for which compiled code was found.

A hit never reaches a hook of Dynamo's. Two places in Python are passed all the same: each call of a compiled function
asks for its callback by the stance, with the arguments at hand; and a graph is called through what the backend
returned. Both are watched only while somebody observes. What the calls amount to is counted elsewhere.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType
from typing import Any

from replay.torch_adapter import features

Called = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
"""Gets the callable that was compiled, and the arguments. Must not raise."""
Ran = Callable[[CodeType, str], None]
"""Gets the frame's code and the compile id of what runs. Must not raise."""

_WRAPPER = "compile_wrapper"
"""The function in torch/_dynamo/eval_frame.py through which a compiled function is called (torch 2.9 to 2.13)."""

_lock = threading.RLock()
_observers: list[Called] = []
_original: list[Callable[[Any], Any]] = []


@contextmanager
def observing(called: Called) -> Iterator[None]:
    """Call `called` ahead of each call of a compiled function, in its thread.

    Raises UnsupportedTorchError if this torch has no such place.
    """
    with _lock:
        if not _original:
            _install()
        _observers.append(called)
    try:
        yield
    finally:
        with _lock:
            _observers.remove(called)
            if not _observers:
                eval_frame: Any = features.module("torch._dynamo.eval_frame")
                eval_frame._callback_from_stance = _original.pop()


def _install() -> None:
    eval_frame: Any = features.module("torch._dynamo.eval_frame")
    original = features.require(eval_frame, "_callback_from_stance")
    file, get_frame = eval_frame.__file__, sys._getframe

    def _callback_from_stance(callback: Any) -> Any:
        frame = get_frame(1)
        if frame.f_code.co_name == _WRAPPER and frame.f_code.co_filename == file:
            held = frame.f_locals
            if "args" in held and "fn" in held:
                for called in tuple(_observers):
                    called(held["fn"], held["args"], held["kwargs"])
        return original(callback)

    _original.append(original)
    eval_frame._callback_from_stance = _callback_from_stance


def function_of(called: Any) -> tuple[FunctionType, tuple[Any, ...]] | None:
    """The function whose frame is compiled when this is called, and what stands before the arguments (`self`).

    None where that cannot be told.
    """
    before: tuple[Any, ...] = ()
    if isinstance(called, MethodType):
        owner = called.__self__
        wraps = called.__func__.__name__ in ("_wrapped_call_impl", "_call_impl")
        if wraps and isinstance(owner, features.module("torch").nn.Module):
            called = owner.forward
    if isinstance(called, MethodType):
        before, called = (called.__self__,), called.__func__
    return (called, before) if type(called) is FunctionType else None


class Counted:
    """A backend around a backend, which tells of each run of what that made. All but the call is the inner one's."""

    def __init__(self, backend: Any, code: CodeType, ran: Ran, made: Callable[[], None]) -> None:
        self._torchdynamo_orig_backend = backend  # where torch looks for what is wrapped
        self._code, self._ran, self._made = code, ran, made

    def __call__(self, graph: Any, example_inputs: Sequence[Any], **options: Any) -> Any:
        """Compile with the inner backend, and count the runs."""
        compiled = self._torchdynamo_orig_backend(graph, example_inputs, **options)
        code, ran, compile_id = self._code, self._ran, compiling()
        self._made()

        def run(*inputs: Any) -> Any:
            ran(code, compile_id)
            return compiled(*inputs)

        return run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_torchdynamo_orig_backend"], name)


def compiling() -> str:
    """The compile id of what this thread compiles, "3/1"; empty outside of that."""
    context = features.require(features.module("torch._guards"), "CompileContext")
    found = context.current_compile_id()
    return "" if found is None else str(found).rpartition("] ")[2].strip("[]")


def describer() -> Callable[[Any], Any]:
    """A function that tells of an argument all that tells it from others, in hashable values and without keeping it.

    Containers are looked into two levels deep. No code of the user's runs.
    """
    torch = features.module("torch")
    ordinary = (torch.Tensor, torch.nn.Parameter)
    plain = frozenset((int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device))

    def describe(value: Any, depth: int = 2) -> Any:
        kind = type(value)
        if kind in plain:
            return kind, value
        if kind in ordinary:
            if value.layout is not torch.strided:
                return kind, value.layout, tuple(value.shape), value.dtype
            size = tuple(value.shape)
            return kind, size, value.stride(), value.dtype, value.device, value.requires_grad
        if depth and kind in (tuple, list):
            return (kind, *[describe(one, depth - 1) for one in value[:64]], len(value))
        if depth and kind is dict:
            items = list(value.items())[:64]
            return (kind, *[(describe(k, 0), describe(v, depth - 1)) for k, v in items], len(value))
        return kind if kind.__weakrefoffset__ else (kind, "")

    return describe


def without_modes() -> Any:
    """A context in which no torch-function mode or subclass of the user's is asked."""
    return features.require(features.module("torch")._C, "DisableTorchFunction")()


def plain_of(value: Any, depth: int = 3) -> list[Any]:
    """An argument as plain data, from which `again` makes one like it; ["other", type] for what has no such form."""
    torch = features.module("torch")
    kind = type(value)
    if kind in (int, float, bool, str, bytes, type(None)):
        return ["plain", value]
    if kind in (torch.dtype, torch.device):
        return [kind.__name__, str(value).removeprefix("torch.")]
    if kind in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided:
        dtype = str(value.dtype).removeprefix("torch.")
        parts = [list(value.shape), list(value.stride()), dtype, str(value.device), value.requires_grad]
        return ["parameter" if kind is torch.nn.Parameter else "tensor", *parts]
    if depth and kind in (list, tuple) and len(value) <= 64:
        return [kind.__name__, [plain_of(one, depth - 1) for one in value]]
    if depth and kind is dict and len(value) <= 64 and all(type(key) in (str, int) for key in value):
        return ["dict", {key: plain_of(one, depth - 1) for key, one in value.items()}]
    return ["other", kind.__qualname__]


def again(told: Sequence[Any], place: Callable[[str], str], other: Any) -> Any:
    """What `plain_of` told of. `place(device)`: where a device is here. `other`: in place of what has no form."""
    torch = features.module("torch")
    kind, *rest = told
    if kind == "plain":
        return rest[0]
    if kind == "dtype":
        return features.require(torch, rest[0])
    if kind == "device":
        return torch.device(place(rest[0]))
    if kind in ("tensor", "parameter"):
        shape, stride, dtype, device, wants = rest
        inference = isinstance(other, torch.Tensor) and other.is_inference()
        with torch.inference_mode(
            inference
        ):  # what is made inside of that is another kind of tensor to a guard
            made = torch.empty_strided(
                shape, stride, dtype=features.require(torch, dtype), device=place(device)
            )
            made = made.fill_(1)
            return torch.nn.Parameter(made, wants) if kind == "parameter" else made.requires_grad_(wants)
    if kind in ("list", "tuple"):
        items = [again(one, place, other) for one in rest[0]]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        return {key: again(one, place, other) for key, one in rest[0].items()}
    return other
