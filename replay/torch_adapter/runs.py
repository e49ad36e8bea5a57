"""Calling a frame again and again, each time as if for the first, and timing each call.

What the frame writes to is put back before the next call, at nobody's cost: tensors by their version counters,
gradients of leaves. What it does to other Python objects stays done.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from replay.torch_adapter import compiling, features
from replay.torch_adapter.interception import Snapshot

FEWEST = 5
"""Runs that are worth a median, if they take no longer than PATIENCE times what was asked for."""
PATIENCE = 5


@dataclass(frozen=True, slots=True)
class Run:
    """One call: nanoseconds until its output was there, and those of the backward."""

    forward: int
    backward: int | None  # None: nothing to differentiate, or not asked for

    @property
    def total(self) -> int:
        """Both together."""
        return self.forward + (self.backward or 0)


class Repeated:
    """A function with its arguments. Made before the first call: it copies every tensor there is."""

    def __init__(
        self,
        function: Callable[..., Any],
        positional: Sequence[Any],
        keywords: Mapping[str, Any],
        *,
        backward: bool,
    ) -> None:
        self._torch = features.module("torch")
        self._function, self._positional, self._keywords = function, positional, keywords
        self._backward = backward
        tensors = _live_tensors(self._torch)
        self._before = Snapshot(tensors)
        self._grads = [(one, one.grad) for one in tensors if one.is_leaf and one.requires_grad]

    def run(self) -> Run:
        """Call it once. Raises what it raises."""
        self.put_back()
        output, forward = self._timed(lambda: self._function(*self._positional, **self._keywords))
        if not self._backward:
            return Run(forward, None)
        ends = compiling.differentiable(output)
        if not ends:
            return Run(forward, None)
        gradients = [self._torch.ones_like(one) for one in ends]
        _, backward = self._timed(lambda: self._torch.autograd.backward(ends, gradients))
        return Run(forward, backward)

    def repeat(self, *, seconds: float, most: int) -> list[Run]:
        """Call it until `seconds` or `most` calls are over; not fewer than FEWEST, unless they take far too long."""
        found: list[Run] = []
        with _uncollected():
            started = time.perf_counter()
            while len(found) < most:
                over = time.perf_counter() - started
                if over > PATIENCE * seconds or (over > seconds and len(found) >= FEWEST):
                    break
                found.append(self.run())
        return found

    def put_back(self) -> None:
        """Leave tensors and gradients as they were before the first call."""
        self._before.put_back()
        for one, grad in self._grads:
            one.grad = grad

    def _timed(self, call: Callable[[], Any]) -> tuple[Any, int]:
        self._finish()
        started = time.perf_counter_ns()
        result = call()
        self._finish()
        return result, time.perf_counter_ns() - started

    def _finish(self) -> None:
        """Wait for what a GPU still does."""
        if self._torch.cuda.is_available() and self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()


def _live_tensors(torch: Any) -> list[Any]:
    """Every plain tensor of this process: arguments, parameters, closures and globals alike."""
    plain = (torch.Tensor, torch.nn.Parameter)
    return [one for one in gc.get_objects() if type(one) in plain and one.layout is torch.strided]


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection meanwhile: it would be some run's, by chance."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
