"""What the compiler does when: torch's own named spans, and the imports between them.

torch tells its chromium event logger of each phase's start and end, whether or not anybody reads its log (2.9 to
2.15); that is where we listen, while somebody collects. Modules that the compiler imports late are no compiling, so
that they get spans as well. Which span belongs to which phase is said in `phases`.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from replay.torch_adapter import features
from replay.torch_adapter.patching import patched

IMPORT = "import "
"""How the name of an import's span begins."""

PROCESSOR = "ask the processor"
"""The name of a span that torch has none for: Inductor finds out, by programs that it builds and loads in another
process (which imports torch as well in 2.9), what the processor can do."""

_ASKS = "torch._inductor.cpu_vec_isa"
"""The module that does."""


@dataclass(slots=True)
class Span:
    """A named stretch of time in one thread; nanoseconds since the epoch."""

    name: str
    start: int
    thread: int
    path: tuple[str, ...]  # the names of the spans around it, outermost first
    end: int = 0
    inside: int = 0  # nanoseconds of the spans directly in it

    @property
    def own(self) -> int:
        """Nanoseconds that no span inside it accounts for."""
        return self.end - self.start - self.inside


@dataclass(slots=True)
class Spans:
    """All spans that ended, in the order of their ends."""

    ended: list[Span] = field(default_factory=list)
    _open: dict[int, list[Span]] = field(default_factory=dict)
    _anchor: int = field(default_factory=lambda: time.time_ns() - time.perf_counter_ns())

    def now(self) -> int:
        """Nanoseconds since the epoch, by a clock that never jumps."""
        return self._anchor + time.perf_counter_ns()

    def begin(self, name: str) -> None:
        """A span begins in this thread."""
        thread = threading.get_ident()
        stack = self._open.setdefault(thread, [])
        stack.append(Span(name, self.now(), thread, tuple(one.name for one in stack)))

    def end(self, name: str) -> None:
        """The innermost span of that name ends, and whatever is open inside it."""
        stack = self._open.get(threading.get_ident(), [])
        if not any(one.name == name for one in stack):
            return  # it began before anybody collected
        while True:
            span = stack.pop()
            span.end = self.now()
            if stack:
                stack[-1].inside += span.end - span.start
            self.ended.append(span)
            if span.name == name:
                return

    def importing(self) -> bool:
        """Whether this thread is importing a module: what that one imports is part of it."""
        stack = self._open.get(threading.get_ident(), [])
        return bool(stack) and stack[-1].name.startswith(IMPORT)


@contextmanager
def collected(ended: Callable[[], None]) -> Iterator[Spans]:
    """Collect the spans of all threads meanwhile. `ended()` is called at the end of each of torch's."""
    spans = Spans()
    logger = features.require(features.module("torch._dynamo.utils"), "ChromiumEventLogger")
    begin, end = features.require(logger, "log_event_start"), features.require(logger, "log_event_end")

    @functools.wraps(begin)
    def log_event_start(self: Any, event_name: str, *rest: Any, **named: Any) -> Any:
        spans.begin(event_name)
        return begin(self, event_name, *rest, **named)

    @functools.wraps(end)
    def log_event_end(self: Any, event_name: str, *rest: Any, **named: Any) -> Any:
        ended()
        spans.end(event_name)
        return end(self, event_name, *rest, **named)

    with ExitStack() as stack:
        asks = functools.partial(_time_questions, stack, spans)
        asks()
        finder = _Imports(spans, asks)
        stack.enter_context(patched(logger, "log_event_start", log_event_start))
        stack.enter_context(patched(logger, "log_event_end", log_event_end))
        sys.meta_path.insert(0, finder)
        stack.callback(sys.meta_path.remove, finder)
        yield spans


def _time_questions(stack: ExitStack, spans: Spans) -> None:
    """Time each question about the processor, once the module is there that asks them.

    A torch that asks in another way has that time in the span around.
    """
    owner = getattr(sys.modules.get(_ASKS), "VecISA", None)
    original = getattr(owner, "check_build", None)
    if owner is None or original is None or hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def check_build(self: Any, *rest: Any, **named: Any) -> Any:
        spans.begin(PROCESSOR)
        try:
            return original(self, *rest, **named)
        finally:
            spans.end(PROCESSOR)

    stack.enter_context(patched(owner, "check_build", check_build))


class _Imports:
    """Stands before the other finders: asks them, and times how long the module's own code takes."""

    def __init__(self, spans: Spans, imported: Callable[[], None]) -> None:
        self._spans, self._imported = spans, imported

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """What the finders behind this one find."""
        for finder in [one for one in sys.meta_path if one is not self]:
            find = getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                if not self._spans.importing():
                    self._time(spec.loader, name)
                return spec
        return None

    def _time(self, loader: Any, name: str) -> None:
        """Time the loader's next execution; one that is shared by modules, or takes no attribute, is left alone."""
        if loader is None or isinstance(loader, type) or not hasattr(loader, "exec_module"):
            return
        original = loader.exec_module

        def exec_module(module: Any) -> None:
            del loader.exec_module
            self._spans.begin(IMPORT + name)
            try:
                original(module)
            finally:
                self._spans.end(IMPORT + name)
            self._imported()

        try:
            loader.exec_module = exec_module
        except AttributeError:
            return
