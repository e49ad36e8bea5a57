"""Which lines of the user's a kernel of Inductor's computes, as Inductor says while it generates code.

torch keeps that for the graph that is being compiled, and drops it with the next one: so it is read again and again
meanwhile. A torch that does not know says nothing, and nothing is known.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from replay.recording import UserFrame
from replay.torch_adapter import features

_BASIC = 2
"""Of `trace.provenance_tracking_level`: only which lines a kernel comes from."""
_FRAME = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)\n\s*(?P<code>.*)')
_HANDLE = re.compile(r":\d+$")


class Lines:
    """The user's lines behind each kernel that was generated while somebody was `tracking`."""

    def __init__(self) -> None:
        self._found: dict[str, dict[UserFrame, None]] = {}

    def read(self) -> None:
        """Take what torch knows now."""
        debug: Any = sys.modules.get("torch._inductor.debug")  # not there: Inductor has not compiled anything
        known: Mapping[str, list[str]] = getattr(debug, "_inductor_kernel_stack_trace", {})
        for name, stacks in known.items():
            places = self._found.setdefault(_operator(_HANDLE.sub("", name)), {})
            places.update((place, None) for stack in stacks for place in _innermost(stack))

    def of(self, kernel: str) -> tuple[UserFrame, ...]:
        """The lines of a kernel or operator by the name that torch's profiler shows; none where they are not known."""
        return tuple(sorted(self._found.get(kernel, ()), key=lambda one: (one.file, one.line)))


@contextmanager
def tracking() -> Iterator[Lines]:
    """Have Inductor say which lines its kernels come from."""
    lines = Lines()
    config = features.module("torch._inductor.config")
    name = "trace.provenance_tracking_level"
    if name not in features.require(config, "_config") or config.trace.provenance_tracking_level:
        yield lines
        return
    with config.patch({name: _BASIC}):
        yield lines


def _operator(name: str) -> str:
    """A library's function as the profiler calls it: "aten::mm" of "extern_kernels.mm"; a kernel's own name."""
    if name.startswith("extern_kernels."):
        return f"aten::{name.partition('.')[2]}"
    if name.startswith("torch.ops."):
        _, _, space, operator, *_ = name.split(".")
        return f"{space}::{operator}"
    return name


def _innermost(stack: str) -> Iterator[UserFrame]:
    """The last of the lines of a traceback's text."""
    found = list(_FRAME.finditer(stack))
    if found:
        last = found[-1]
        yield UserFrame(last["file"], int(last["line"]), last["function"].strip(), last["code"].strip())
