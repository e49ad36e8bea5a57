"""`record()`: from the compiler's hook to a bundle.

One object per block: it filters, recognises failures that it has already, and asks `replay.recorder.capture` for the
bundle. Whatever goes wrong on our side is a RecordingWarning, never a change of the user's program. Replaying
lives elsewhere.
"""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, cast

from replay import source
from replay.errors import RecordingWarning, UsageError
from replay.recorder import capture, later
from replay.recorder.capture import Later
from replay.recorder.history import History
from replay.recording import ErrorInfo, Event, Stage
from replay.selection import Pattern, Selection
from replay.torch_adapter import failures, hooks
from replay.torch_adapter import later as adapter

F = TypeVar("F", bound=Callable[..., Any])
Tensors = Literal["auto", "full", "metadata"]

EVENTS = ("failure",)
"""What `on` accepts in this version."""
LATER_EVENTS = ("graph_break", "recompile", "accuracy", "all")
"""Words of the contract that this version does not record yet."""

_NOTE = "replay: recorded "
"""How the note on an exception begins."""

log = logging.getLogger("replay")


class record:  # noqa: N801 - used as a function: `with record(...)`
    """Record every frame that fails to compile, while the block runs or the decorated function does.

    `directory`: where bundles go; made when there is one to write. `on`: the events that make a bundle.
    `only`: function-name filter, see `replay.selection`. `tensors`: which values travel: "auto" (integers,
    booleans and small tensors, and more if a replay in a child process shows that the failure needs it; the rest as
    metadata), "full" or "metadata". `ship`: names of installed packages
    whose code travels by value. `max_bundles`: stop after so many distinct ones.

    `bundles` lists the files; `lost` counts the failures that could not be recorded, each told by a warning.
    The exception that reaches the caller is the program's own; it gains a note with the
    path and the command that replays it. Nothing is written and nothing stays patched where nothing fails.

    Raises UsageError for a bad argument, UnsupportedTorchError on entry for a torch whose hooks are unknown.
    """

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
    ) -> None:
        if callable(directory):
            raise UsageError("@record needs parentheses and a directory: @replay.record('failures/')")
        self.directory = Path(directory)
        self.lost = 0  # failures that could not be recorded
        self.bundles: list[Path] = []
        self._events = _events(on)
        self._selection = Selection.of(only)
        self._tensors = _tensors(tensors)
        self._ship = (ship,) if isinstance(ship, str) else tuple(ship)
        self._max = _positive("max_bundles", max_bundles)
        if calls or crash_safe:
            name = "calls" if calls else "crash_safe"
            raise UsageError(f"record({name}=True): this version of torch-replay cannot do that yet")
        self._seen: dict[str, Path] = {}
        self._history = History()
        self._lock = threading.RLock()
        self._full = False
        self._entered: list[ExitStack] = []
        self._decorates = False

    def __enter__(self) -> record:
        with ExitStack() as stack:
            stack.enter_context(hooks.observing(self._observe))
            stack.enter_context(adapter.observing_backward(self._observe_backward))
            self._entered.append(stack.pop_all())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().close()
        if isinstance(error, Exception) and not _is_recorded(error):
            self._observe_later("runtime", lambda: later.of_run(error, self._history))
        if not self._entered and not self._decorates:
            self._history.clear()

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
            _warn(f"replay could not record {attempt.code.co_name!r}: {type(error).__name__}: {error}")

    def _handle(self, attempt: hooks.Attempt) -> None:
        if not self._selection.matches_code(attempt.code):
            return
        if attempt.fate == "compiled":
            self._history.note(attempt)
        event = _event(attempt)
        if event is None or event not in self._events or attempt.error is None:
            return
        soft = attempt.fate == "graph_break"
        info = failures.describe(attempt.error, stage="graph_break" if soft else None, code=attempt.code)
        self._keep(attempt, event, info)

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
            _warn(f"replay could not record a failure ({stage}): {type(error).__name__}: {error}")

    def _handle_later(
        self, stage: Stage, attempt: hooks.Attempt, particulars: Later, trace: TracebackType | None
    ) -> None:
        assert attempt.error is not None
        info = failures.describe(attempt.error, stage=stage, code=attempt.code, trace=trace)
        self._keep(attempt, "failure", info, particulars)

    def _keep(
        self, attempt: hooks.Attempt, event: Event, info: ErrorInfo, particulars: Later | None = None
    ) -> None:
        """Write the failure's bundle unless this block has it already, and say where it is."""
        identity = _identity(attempt, info)
        with self._lock:
            path = self._seen.get(identity) or self._write(attempt, event, info, particulars)
            if path is not None:
                self._seen[identity] = path
        if path is not None:
            _tell(attempt, info, path)

    def _write(
        self, attempt: hooks.Attempt, event: Event, info: ErrorInfo, particulars: Later | None
    ) -> Path | None:
        if len(self._seen) >= self._max:
            if not self._full:
                self._full = True
                _warn(
                    f"replay has written max_bundles={self._max} bundles; further failures are not recorded"
                )
            return None
        shared = _written_by_another(attempt.error, self.directory)
        path = shared or capture.write(
            self.directory,
            attempt,
            event=event,
            error=info,
            calls=self._history,
            tensors=self._tensors,
            ship=self._ship,
            warn=_warn,
            later=particulars,
        )
        if path not in self.bundles:
            self.bundles.append(path)
        return path


def _identity(attempt: hooks.Attempt, info: ErrorInfo) -> str:
    """What one block counts as one failure.

    The fingerprint and, where the error names no line of the program (a backend's error, a limit), the function.
    """
    if attempt.error is not None and failures.real_stack(attempt.error):
        return info.fingerprint
    return f"{info.fingerprint} {source.qualified_name(attempt.code)}"


def _event(attempt: hooks.Attempt) -> Event | None:
    error = attempt.error
    if error is None or not isinstance(error, Exception) or failures.is_skip(error):
        return None
    if attempt.fate == "graph_break" and not failures.is_limit(error):
        return "graph_break"
    return "failure"


def _tell(attempt: hooks.Attempt, info: ErrorInfo, path: Path) -> None:
    """Say where the bundle is: on the exception, and in the log where that does not reach the caller."""
    command = f"python -m replay {_quoted(path)}"
    note = f"{_NOTE}{attempt.code.co_name} in {path}\nreplay: to replay it: {command}"
    noted = any(f" in {path}\n" in one for one in _notes(attempt.error)) or _add_note(attempt.error, note)
    if attempt.fate != "raised" or not noted:
        log.warning(
            "recorded %s of %s (%s); replay it with: %s", info.stage, attempt.code.co_name, path, command
        )


def _notes(error: BaseException | None) -> list[str]:
    notes = getattr(error, "__notes__", None)
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def _add_note(error: BaseException | None, note: str) -> bool:
    """Whether the exception took the note and Python will print it."""
    try:
        add = getattr(error, "add_note", None)
        if add is not None:
            add(note)
            return True
        error.__notes__ = [*_notes(error), note]  # type: ignore[union-attr]
    except Exception:  # noqa: BLE001 - a frozen exception, or one with odd notes of its own
        return False
    return False  # Python 3.10 prints no notes


def _is_recorded(error: BaseException) -> bool:
    """Whether the error, or one that it was raised from, has a bundle already."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if any(note.startswith(_NOTE) for note in _notes(link)):
            return True
        seen.add(id(link))
        link = link.__cause__ or link.__context__
    return False


def _written_by_another(error: BaseException | None, directory: Path) -> Path | None:
    """The bundle that a recorder of an inner block wrote for this very exception into the same directory."""
    for note in _notes(error):
        first = note.splitlines()[0] if note else ""
        if first.startswith(_NOTE) and " in " in first:
            path = Path(first.split(" in ", 1)[1])
            if path.parent.resolve() == directory.resolve() and path.exists():
                return path
    return None


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(str(path))


def _warn(message: str) -> None:
    try:
        warnings.warn(message, RecordingWarning, stacklevel=2)
    except Exception:  # noqa: BLE001 - the user turned warnings into errors: those must not come from us
        print(f"RecordingWarning: {message}", file=sys.stderr)  # noqa: T201 - the last way to be heard


def _events(on: str | Sequence[str]) -> frozenset[str]:
    names = (on,) if isinstance(on, str) else tuple(on)
    for name in names:
        if name in LATER_EVENTS:
            raise UsageError(f"record(on={name!r}): this version of torch-replay records failures only")
        if name not in EVENTS:
            raise UsageError(f"record(on={name!r}): must be one of {', '.join(EVENTS)}")
    return frozenset(names)


def _tensors(policy: str) -> Tensors:
    if policy not in ("auto", "full", "metadata"):
        raise UsageError(f"record(tensors={policy!r}): must be auto, full or metadata")
    return cast(Tensors, policy)


def _positive(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"record({name}={value!r}): must be a whole number of at least 1")
    return value
