"""Counting all calls of the frames in a block: `record(calls=True)`.

A call is told by the metadata of its arguments, and by what became of it. Memory is bounded: the first signatures and
the first runs of equal calls are kept, the rest is counted. No argument is kept alive. Where a call comes from is
known to `torch_adapter.calls`.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType
from typing import Any

from replay.recorder import frames, telling
from replay.recording import CallKind, SignatureInfo, TrafficInfo
from replay.recording.traffic import CallFate
from replay.torch_adapter import calls, failures, hooks, sketches

SIGNATURES = 64
"""Signatures of one frame that are kept."""
RUNS = 1024
"""Runs of equal calls of one frame that are kept in their order."""

Kind = tuple["int | None", CallFate, str]


class Flow:
    """The calls of one frame."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.compiles = 0
        self.is_blind = False  # it has code whose runs are not seen
        self.total = 0
        self._signatures: dict[Any, int] = {}
        self._told: list[SignatureInfo] = []
        self._kinds: dict[Kind, list[int]] = {}  # position and count
        self._runs: list[list[int]] = []
        self._later = 0
        self._lock = threading.Lock()

    def signature(self, key: Any, tell: Callable[[], SignatureInfo]) -> int | None:
        """The number of a signature; None for one of those that are not kept."""
        known = self._signatures.get(key)
        if known is not None or len(self._told) >= SIGNATURES:
            return known
        told = tell()
        with self._lock:
            if key not in self._signatures:
                self._told.append(told)
                self._signatures[key] = len(self._told) - 1
            return self._signatures[key]

    def add(self, kind: Kind) -> None:
        """One more call."""
        with self._lock:
            self.total += 1
            found = self._kinds.get(kind)
            if found is None:
                found = self._kinds[kind] = [len(self._kinds), 0]
            found[1] += 1
            runs = self._runs
            if self._later:
                self._later += 1
            elif runs and runs[-1][0] == found[0]:
                runs[-1][1] += 1
            elif len(runs) < RUNS:
                runs.append([found[0], 1])
            else:
                self._later = 1

    def told(self) -> TrafficInfo:
        """What the manifest says."""
        with self._lock:
            return TrafficInfo(
                signatures=tuple(self._told),
                kinds=tuple(CallKind(*kind, count) for kind, (_, count) in self._kinds.items()),
                runs=tuple((kind, count) for kind, count in self._runs),
                later=self._later,
            )


class _Pending:
    """A call of a compiled function whose fate is not known yet."""

    __slots__ = ("compile_id", "fate", "flow", "has_run", "signature")

    def __init__(self, flow: Flow, signature: int | None) -> None:
        self.flow, self.signature = flow, signature
        self.fate: CallFate | None = None
        self.compile_id = ""
        self.has_run = False


class Traffic:
    """The calls of all frames of a block. Whatever goes wrong here is a warning, and the call goes on."""

    def __init__(self, selects: Callable[[CodeType], bool]) -> None:
        self._selects = selects
        self._flows: dict[int, Flow | None] = {}  # by the code's id; None: not asked for
        self._codes: list[CodeType] = []  # so that no id is used twice
        self._local = threading.local()
        self._pending: dict[int, _Pending] = {}  # by thread: what is still open when the block ends
        self._failed = False
        self._describe: Callable[[Any], Any] = type
        self._lock = threading.RLock()
        self._blocks = 0
        self._watching = ExitStack()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count while inside. Blocks that overlap, as those of a decorated function, count together."""
        with self._lock:
            self._blocks += 1
            if self._blocks == 1:
                self._describe = calls.describer()
                self._watching.enter_context(hooks.observing(self._attempted, wrap=self._wrap))
                self._watching.enter_context(calls.observing(self._called))
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                if not self._blocks:
                    self._watching.close()
                    for thread in list(self._pending):
                        self._settle(thread)

    def flow(self, code: CodeType) -> Flow | None:
        """The calls of a frame."""
        if id(code) not in self._flows:
            with self._lock:
                self._codes.append(code)
                self._flows.setdefault(id(code), Flow(code) if self._selects(code) else None)
        return self._flows[id(code)]

    def clear(self) -> None:
        """Forget everything."""
        self._flows.clear()
        self._codes.clear()

    def _called(self, called: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            thread = threading.get_ident()
            if thread in self._pending:
                self._settle(thread)
            found = calls.function_of(called)
            flow = None if found is None else self.flow(found[0].__code__)
            if found is None or flow is None:
                return
            key, function, before = self._key(args, kwargs), *found
            number = flow.signature(key, lambda: _told(function, (*before, *args), kwargs))
            self._pending[thread] = _Pending(flow, number)
        except Exception as error:  # noqa: BLE001 - the program must not notice
            self._fail(error)

    def _attempted(self, attempt: hooks.Attempt) -> None:
        try:
            self._note_attempt(attempt)
        except Exception as error:  # noqa: BLE001 - the program must not notice
            self._fail(error)

    def _note_attempt(self, attempt: hooks.Attempt) -> None:
        limit = failures.is_limit(attempt.error)
        flow = self.flow(attempt.code)
        if flow is None or not (limit or attempt.fate == "compiled"):
            return
        fate: CallFate = "limit" if limit else "compiled"
        compile_id = attempt.compile_id or ""
        if not limit:
            graphs = self._local.__dict__.pop("graphs", set())
            flow.is_blind |= attempt.code not in graphs
            flow.is_blind |= flow.compiles == 0 and not compile_id.endswith("/0")
            flow.compiles += 1
        pending = self._pending.get(threading.get_ident())
        if pending is not None and pending.flow is flow and pending.fate is None:
            pending.fate, pending.compile_id = fate, compile_id
            return
        if not limit:
            self._fresh().add(attempt.code)
        flow.add((self._inner(flow, attempt.code, attempt.f_locals), fate, compile_id))

    def _wrap(self, backend: Any, code: CodeType) -> Any:
        if self.flow(code) is None:
            return backend

        def made() -> None:
            self._local.__dict__.setdefault("graphs", set()).add(code)

        return calls.Counted(backend, code, self._ran, made)

    def _ran(self, code: CodeType, compile_id: str) -> None:
        try:
            pending = self._pending.get(threading.get_ident())
            if pending is not None and pending.flow.code is code and not pending.has_run:
                pending.has_run = True
                if pending.fate is None:
                    pending.fate, pending.compile_id = "hit", compile_id
                return
            self._ran_inside(code, compile_id)
        except Exception as error:  # noqa: BLE001 - the program must not notice
            self._fail(error)

    def _ran_inside(self, code: CodeType, compile_id: str) -> None:
        """A frame that was called by another one: its arguments are those of the frame that runs."""
        fresh, flow = self._fresh(), self.flow(code)
        if code in fresh:  # the run of the call that compiled it
            fresh.discard(code)
        elif flow is not None:
            live = next((one for one in hooks.live_frames() if one.code is code), None)
            number = None if live is None else self._inner(flow, code, live.f_locals)
            flow.add((number, "hit", compile_id))

    def _inner(self, flow: Flow, code: CodeType, f_locals: Mapping[str, Any]) -> int | None:
        names = [name for name in frames.argument_names(code) if name in f_locals]
        key = self._key(tuple(f_locals[name] for name in names), {})
        return flow.signature(key, lambda: _of_locals(code, f_locals))

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        describe = self._describe
        with calls.without_modes():
            told = [describe(one) for one in args]
            if kwargs:
                told += [(name, describe(one)) for name, one in sorted(kwargs.items())]
        return sketches.grad_enabled(), *told

    def _fresh(self) -> set[CodeType]:
        found: set[CodeType] = self._local.__dict__.setdefault("fresh", set())
        return found

    def _settle(self, thread: int) -> None:
        """The call before is over: if nothing was seen of it, it found no compiled code."""
        pending = self._pending.pop(thread, None)
        if pending is None:
            return
        flow, fate = pending.flow, pending.fate
        if fate is None:
            fate = "uncompiled" if flow.compiles and not flow.is_blind else "unknown"
        flow.add((pending.signature, fate, pending.compile_id))

    def _fail(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            telling.warn(f"replay could not count a call: {type(error).__name__}: {error}")


def _told(function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SignatureInfo:
    signature = inspect.signature(function, follow_wrapped=False)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return _of_locals(function.__code__, bound.arguments)


def _of_locals(code: CodeType, f_locals: Mapping[str, Any]) -> SignatureInfo:
    positional, keywords = frames.arguments(code, f_locals)
    with calls.without_modes():
        return SignatureInfo(
            positional=tuple(map(calls.plain_of, positional)),
            keywords={name: calls.plain_of(value) for name, value in keywords.items()},
            grad_enabled=sketches.grad_enabled(),
        )
