"""Bundles that are written before a dangerous step, for the case that the process does not survive it.

A step is the compilation of a frame, a run of one of its compiled graphs, or the backward of such a run. Its bundle
lies in the block's directory while the step goes on, and is removed when it ends, well or with an exception. A run
whose backward may follow keeps its bundle in a hidden folder; for the time of the backward it comes back.
After a crash, what lies in the directory are the steps that were going on.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from replay import fingerprint
from replay.recorder import later, telling
from replay.recorder.capture import Later
from replay.recorder.happenings import Happening
from replay.recorder.history import History
from replay.recording import DIED, ErrorInfo, Stage
from replay.torch_adapter import failures, hooks, interception

Write = Callable[[hooks.Attempt, Happening, "Later | None"], Path]
"""Writes a bundle and returns its path."""


class Precaution:
    """The steps of one block. Whatever goes wrong here is a warning, and the step goes on."""

    def __init__(
        self, directory: Path, calls: History, selects: Callable[[CodeType], bool], write: Write
    ) -> None:
        self._directory, self._calls, self._selects, self._write = directory, calls, selects, write
        self._hidden = directory / f".crash-{socket.gethostname()}-{os.getpid()}-{id(self):x}"
        self._owner = os.getpid()
        self._made: dict[Path, int] = {}  # by which process: a forked child has files of its own
        self._existed = directory.exists()
        self._compiling = threading.local()
        self._kept: dict[int, Path] = {}  # by a run's number
        self._last: dict[CodeType, int] = {}  # the last run of each frame
        self._number = 0
        self._lock = threading.RLock()

    def before(self, attempt: hooks.Attempt) -> None:
        """Called ahead of each compilation."""
        path = self._begin(attempt, None, "backend", "compiled") if self._selects(attempt.code) else None
        self._steps().append(path)

    def after(self, attempt: hooks.Attempt) -> None:
        """Called after each compilation, whatever came of it."""
        steps = self._steps()
        if steps and attempt.fate != "refused" and attempt.entry is None:  # those were not begun
            self._remove(steps.pop())

    def wrap(self, backend: Any, code: CodeType) -> Any:
        """The backend, with every run of a graph that it compiles made a step. For `hooks.observing`."""
        if not self._selects(code):
            return backend

        def around(graph: Any, compiled: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *inputs: self._run(compiled, inputs)

        return interception.Intercepted(backend, around)

    def clear(self) -> None:
        """Remove every bundle of this block: all went well."""
        with self._lock:
            for path in list(self._made):
                self._remove(path)
            self._kept.clear()
            self._last.clear()
            if os.getpid() != self._owner:
                return
            shutil.rmtree(self._hidden, ignore_errors=True)
            if not self._existed:
                with contextlib.suppress(OSError):  # not empty: there are bundles of failures
                    self._directory.rmdir()

    def _run(self, compiled: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
        differentiated = interception.wants_gradient(inputs)
        running = self._running(backward=differentiated)
        path = None if running is None else self._begin(running[0], running[1], "runtime", "run")
        kept = False
        try:
            output = compiled(*inputs)
            kept = path is not None and differentiated and self._keep(running, path, output)
            return output
        finally:
            if not kept:
                self._remove(path)

    def _running(self, *, backward: bool) -> later.Found | None:
        try:
            return later.of_running(self._calls, backward=backward)
        except Exception as error:  # noqa: BLE001 - the program must not notice
            telling.warn(f"replay could not look at a frame before it ran: {type(error).__name__}: {error}")
            return None

    def _begin(
        self, attempt: hooks.Attempt, particulars: Later | None, stage: Stage, step: str
    ) -> Path | None:
        try:
            path = self._write(attempt, Happening("failure", died(stage, step, attempt.code)), particulars)
            self._made[path] = os.getpid()
            return path
        except Exception as error:  # noqa: BLE001 - the program must not notice
            name = attempt.code.co_name
            telling.warn(
                f"replay could not record {name!r} before it was {step}: {type(error).__name__}: {error}"
            )
            return None

    def _keep(self, running: later.Found | None, path: Path, output: Any) -> bool:
        """Put a run's bundle aside until its backward comes; only the last run of each frame."""
        assert running is not None
        with self._lock:
            self._number += 1
            number = self._number
            code = running[0].code
            if not interception.around_backward(output, lambda: self._during_backward(number)):
                return False
            previous = self._last.get(code)
            if previous is not None:
                self._remove(self._kept.pop(previous, None))
            self._last[code] = number
            self._kept[number] = self._hide(path, number)
            return True

    @contextmanager
    def _during_backward(self, number: int) -> Iterator[None]:
        with self._lock:
            hidden = self._kept.get(number)
            shown = None if hidden is None else self._show(hidden)
        try:
            yield
        finally:
            self._remove(shown)

    def _show(self, hidden: Path) -> Path | None:
        """A hidden bundle, beside the others, under a name that is free."""
        stem = hidden.stem.partition("-")[2]
        for number in itertools.count(1):
            path = self._directory / (f"{stem}.rec" if number == 1 else f"{stem}-{number}.rec")
            try:
                os.link(hidden, path)
            except FileExistsError:
                continue
            except OSError as error:  # a file system without links
                telling.warn(f"replay has no bundle for the time of a backward: {error}")
                return None
            self._made[path] = os.getpid()
            return path
        return None

    def _hide(self, path: Path, number: int) -> Path:
        if not self._hidden.exists():
            self._hidden.mkdir(exist_ok=True)
            self._sweep()
        hidden = self._hidden / f"{os.getpid()}.{number}-{path.name}"
        os.replace(path, hidden)
        self._made[hidden] = self._made.pop(path)
        return hidden

    def _sweep(self) -> None:
        """Remove what crashed processes of this machine left hidden: steps that had ended."""
        for folder in self._directory.glob(f".crash-{socket.gethostname()}-*"):
            process = folder.name.split("-")[-2]
            if process.isdigit() and int(process) != self._owner and not _is_alive(int(process)):
                shutil.rmtree(folder, ignore_errors=True)

    def _steps(self) -> list[Path | None]:
        steps: list[Path | None] = self._compiling.__dict__.setdefault("steps", [])
        return steps

    def _remove(self, path: Path | None) -> None:
        if path is not None and self._made.pop(path, None) == os.getpid():
            with contextlib.suppress(OSError):  # gone already
                path.unlink()


def died(stage: Stage, step: str, code: CodeType) -> ErrorInfo:
    """What a bundle that was written ahead says of the failure: how the process ended, nobody knows."""
    user = failures.own_frame(code)
    return ErrorInfo(
        type=DIED,
        message=f"the process ended while this frame was being {step}; the bundle was written before that",
        stage=stage,
        fingerprint=fingerprint.compute(
            stage=stage,
            type=DIED,
            user_frames=user,
        ),
        user_frames=user,
    )


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
