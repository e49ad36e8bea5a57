"""`record()`: from the compiler's hook to a bundle.

One object per block: it filters, recognises failures that it has already, and asks `replay.recorder.capture` for the
bundle. Whatever goes wrong on our side is a RecordingWarning, never a change of the user's program. Replaying
lives elsewhere.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, cast

from replay import source
from replay.errors import UsageError
from replay.recorder import capture, children, happenings, later, survival, telling
from replay.recorder.capture import Later
from replay.recorder.happenings import Happening
from replay.recorder.history import History
from replay.recorder.precaution import Precaution
from replay.recorder.series import Series
from replay.recorder.traffic import Traffic
from replay.recording import Difference, Stage
from replay.selection import Pattern, Selection
from replay.torch_adapter import accuracy, distributed, events, failures, hooks, interception
from replay.torch_adapter import later as adapter

F = TypeVar("F", bound=Callable[..., Any])
Tensors = Literal["auto", "full", "metadata"]


class record:  # noqa: N801 - used as a function: `with record(...)`
    """Record every frame that fails to compile, while the block runs or the decorated function does.

    `directory`: where bundles go; made when there is one to write. `on`: the events that make a bundle: "failure",
    "graph_break", "recompile", "accuracy", or "all" for every frame that is compiled; a name or several.
    `only`: function-name filter, see `replay.selection`. `tensors`: which values travel: "auto" (integers,
    booleans and small tensors, and more if a replay in a child process shows that the failure needs it; the rest as
    metadata), "full" or "metadata". `ship`: names of installed packages whose code travels by value. `max_bundles`:
    stop after so many distinct ones. `tolerance`: of "accuracy", which
    compares each graph with uncompiled code at each call; None: torch._dynamo.config.repro_tolerance. `crash_safe`:
    each frame is on disk before it is compiled and before each run, so that a crash of the process leaves its bundle.
    `calls`: with "recompile": count the calls that find compiled code as well, which costs each of them time.

    `bundles` lists the files; `lost` counts the failures that could not be recorded, each told by a warning.
    The exception that reaches the caller is the program's own; it gains a note with the
    path and the command that replays it. Nothing is written and nothing stays patched where nothing fails.

    Raises UsageError for a bad argument, UnsupportedTorchError on entry for a torch whose hooks are unknown.
    """

    family: children.Family  # the processes that record for this block

    def __new__(cls, *arguments: Any, **keywords: Any) -> record:
        """Keeps the arguments, for processes that the program starts."""
        self = super().__new__(cls)
        self.family = children.Family((arguments, keywords))
        return self

    def __init__(
        self,
        directory: str | Path = "recordings",
        *,
        on: str | Sequence[str] = "failure",
        only: Pattern | Sequence[Pattern] | None = None,
        tensors: Tensors = "auto",
        ship: str | Collection[str] = (),
        calls: bool = False,
        crash_safe: bool = False,
        max_bundles: int = 16,
        tolerance: float | None = None,
    ) -> None:
        if callable(directory):
            raise UsageError("@record needs parentheses and a directory: @replay.record('failures/')")
        self.directory = Path(directory)
        self.lost = 0  # failures that could not be recorded
        self.bundles: list[Path] = []
        self._events = happenings.chosen(on)
        self._selection = Selection.of(only)
        self._tensors = _tensors(tensors)
        self._ship = (ship,) if isinstance(ship, str) else tuple(ship)
        self._max = _positive("max_bundles", max_bundles)
        self._tolerance = _tolerance(tolerance)
        if calls and "recompile" not in self._events:
            raise UsageError(f'record(calls=True, on={on!r}): calls are recorded with on="recompile" only')
        self._traffic = Traffic(self._selection.matches_code) if calls else None
        self._crash_safe = bool(crash_safe)
        self.seen: dict[str, Path] = {}
        self._history = History()
        self._series = Series(self, self._history)
        self._lock = threading.RLock()
        self._full = False
        self._entered: list[ExitStack] = []  # one for each time that the block was entered
        self._decorates = False

    def __enter__(self) -> record:
        with ExitStack() as stack:
            if self._crash_safe:
                stack.enter_context(self._precaution())
            if not self._entered:
                stack.callback(self._finish)
            if self._traffic is not None and not self._entered:
                stack.enter_context(self._traffic.watched())
            stack.enter_context(hooks.observing(self._observe, wrap=self._comparison()))
            stack.enter_context(adapter.observing_backward(self._observe_backward))
            stack.enter_context(children.followed(self))
            self._entered.append(stack.pop_all())
        self.family.began(self.directory)
        self._history.began()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().close()
        if error is not None:
            self._series.complete()
            self.leaving(error)
        self.bundles += [path for path, _ in self.family.bundles(self.directory, self.bundles)]
        if not self._entered and not self._decorates:
            self._history.clear()
            if self._traffic is not None:
                self._traffic.clear()

    def leaving(self, error: BaseException) -> None:
        """Record an error that leaves the block, if it comes from compiled code; must not raise."""
        if isinstance(error, Exception) and not telling.is_recorded(error):
            self._observe_later("runtime", lambda: later.of_run(error, self._history))

    def __call__(self, function: F) -> F:
        """Decorate: each call is a block of its own, so that recursion and threads do not meet."""
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise UsageError(
                f"@record cannot decorate the generator function {function.__qualname__}; use `with record(...)` inside"
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with self._again():
                    return await function(*args, **kwargs)

            return cast(F, run_async)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return cast(F, run)

    def _again(self) -> record:
        """A block for one call; what was seen and written is that of all calls."""
        other = copy.copy(self)
        other._entered, other._decorates = [], True
        return other

    def _observe(self, attempt: hooks.Attempt) -> None:
        """Called in the compiling thread after every attempt; must not raise."""
        try:
            self._handle(attempt)
        except Exception as error:  # noqa: BLE001 - the program must not notice
            self.lost += 1
            telling.warn(f"replay could not record {attempt.code.co_name!r}: {type(error).__name__}: {error}")

    def _handle(self, attempt: hooks.Attempt) -> None:
        if not self._selection.matches_code(attempt.code):
            return
        for happening in happenings.of_attempt(attempt, self._events):
            if happening.sequence:
                self._series.add(attempt, happening)
            else:
                self._keep(attempt, happening)
        if attempt.compile_id is not None and attempt.compile_id.endswith("/0"):
            self._series.complete(attempt.code)  # the compiler was reset, and the history begins anew
        if attempt.fate in ("compiled", "refused"):
            self._history.note(attempt)

    @contextmanager
    def _precaution(self) -> Iterator[None]:
        """Have each frame on disk before it is compiled and run."""

        def write(attempt: hooks.Attempt, happening: Happening, particulars: Later | None) -> Path:
            return self._capture(attempt, happening, particulars, durable=False)[0]

        steps = Precaution(self.directory, self._history, self._selection.matches_code, write)
        try:
            with hooks.observing(steps.after, before=steps.before, wrap=steps.wrap):
                yield
        finally:
            steps.clear()

    def _comparison(self) -> hooks.Wrapper | None:
        if "accuracy" not in self._events:
            return None
        tolerance = accuracy.default_tolerance() if self._tolerance is None else self._tolerance
        return accuracy.Comparing(
            self._observe_difference, telling.warn, tolerance, self._selection.matches_code
        ).wrap

    def _observe_difference(self, found: Difference, before: interception.Snapshot) -> None:
        """Called while a compiled graph runs, when it has computed wrong numbers; must not raise."""
        try:
            with before.restored():
                running = later.of_running(self._history)
                if running is not None:
                    info = events.describe_difference(found, running[0].code)
                    self._keep(running[0], Happening("accuracy", info, difference=found), running[1])
        except Exception as error:  # noqa: BLE001 - the program must not notice
            self.lost += 1
            telling.warn(f"replay could not record wrong numbers: {type(error).__name__}: {error}")

    def _observe_backward(self, compile_id: str, error: BaseException) -> None:
        """Called in the thread that compiles a backward graph late, when that fails; must not raise."""
        if isinstance(error, Exception):
            self._observe_later("backward", lambda: later.of_backward(compile_id, error, self._history))

    def _observe_later(self, stage: Stage, find: Callable[[], later.Found | None]) -> None:
        try:
            found = find()
            if (
                found is not None
                and self._selection.matches_code(found[0].code)
                and "failure" in self._events
            ):
                self._handle_later(stage, *found)
        except Exception as error:  # noqa: BLE001 - the program must not notice
            self.lost += 1
            telling.warn(f"replay could not record a failure ({stage}): {type(error).__name__}: {error}")

    def _handle_later(
        self, stage: Stage, attempt: hooks.Attempt, particulars: Later, trace: TracebackType | None
    ) -> None:
        assert attempt.error is not None
        info = failures.describe(attempt.error, stage=stage, code=attempt.code, trace=trace)
        self._keep(attempt, Happening("failure", info), particulars)

    def _keep(self, attempt: hooks.Attempt, happening: Happening, particulars: Later | None = None) -> None:
        """Write the bundle of a happening unless this block has it already, and say where it is."""
        identity = happenings.identity(attempt, happening)
        check: survival.Check | None = None
        with self.alone():
            known = path = self.seen.get(identity)
            if path is None:
                path, check = self._write(attempt, happening, particulars)
            if path is not None:
                self.seen[identity] = path
        if path is None:
            return
        if check is not None:  # takes seconds: no other thread or process waits for it
            path = self._checked(identity, path, check)
        if known is None or happening.event == "failure":
            telling.tell(attempt, happening, path)
        if known is None:
            telling.tell_regrets(path)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other thread or process writes bundles of this block meanwhile."""
        with self._lock, self.family.alone(self.directory):
            yield

    def sibling(self, attempt: hooks.Attempt, happening: Happening) -> Path | None:
        """The bundle that another process of the block has written of it."""
        everywhere = happening.family, source.qualified_name(attempt.code), distributed.rank()
        return self.family.sibling(self.directory, self.bundles, everywhere)

    def _finish(self) -> None:
        """The block ends: what waits is written, and what was counted is told; must not raise."""
        if not self._decorates:  # a decorated function is a block with each call: see `series`
            self._series.complete()
        if self._traffic is not None:
            self._series.count(self._traffic, seldom=self._decorates)

    def _checked(self, identity: str, path: Path, check: survival.Check) -> Path:
        found = check()
        if found != path:  # somebody has moved the first one away
            with self._lock:
                self.seen[identity] = found
                self.bundles[self.bundles.index(path)] = found
        return found

    def _write(
        self, attempt: hooks.Attempt, happening: Happening, particulars: Later | None
    ) -> tuple[Path | None, survival.Check | None]:
        if self.is_full():
            return None, None
        path = telling.written_by_another(attempt.error, self.directory) or self.sibling(attempt, happening)
        check = None
        if path is None:
            path, check = self._capture(attempt, happening, particulars)
        if path not in self.bundles:
            self.bundles.append(path)
        return path, check

    def _capture(
        self,
        attempt: hooks.Attempt,
        happening: Happening,
        particulars: Later | None,
        *,
        durable: bool = True,
    ) -> tuple[Path, survival.Check | None]:
        return capture.write(self.asked(durable=durable), attempt, happening, self._history, particulars)

    def asked(self, *, durable: bool) -> capture.Asked:
        """What this block wants of its bundles."""
        return capture.Asked(
            self.directory, self._tensors, self._ship, telling.warn, self.family.word, durable
        )

    def is_full(self) -> bool:
        """Whether this block has as many bundles as it may; that is told once."""
        full = len(self.seen) >= self._max
        if full and not self._full:
            self._full = True
            telling.warn(f"replay has written max_bundles={self._max} bundles; further ones are not recorded")
        return full


def _tensors(policy: str) -> Tensors:
    if policy not in ("auto", "full", "metadata"):
        raise UsageError(f"record(tensors={policy!r}): must be auto, full or metadata")
    return cast(Tensors, policy)


def _positive(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"record({name}={value!r}): must be a whole number of at least 1")
    return value


def _tolerance(value: float | None) -> float | None:
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0
    ):
        raise UsageError(f"record(tolerance={value!r}): must be a number, 0 or more")
    return value
