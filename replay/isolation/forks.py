"""Children that are forked from one process, which has imported what all of them need.

A fork is as isolated as a new process, and starts at once. It is only sound while the forking process has one
thread and has started no device; where it would not be, or there is no fork, the call goes to a new process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgpack

from replay.isolation import fresh
from replay.isolation.results import POLL, ChildResult, Limits, collect, watch

AVAILABLE = hasattr(os, "fork") and sys.platform.startswith("linux")
"""Elsewhere a forked child may not use what its parent has loaded (macOS), or there is no fork (Windows)."""

REFUSED = "refused"
"""What a forked child leaves in its directory, in place of an answer, where forking was not sound."""


class ForkServer:
    """The process that forks. It starts with the first call, and `close` ends it and every child.

    `preload`: `module:function`, called with `request` in that process, before it forks; what it raises ends the
    server, and calls go to new processes. `sound`: `module:function`, called without arguments in each child;
    false: the call is made in a new process.
    """

    def __init__(self, preload: str, request: Any, *, sound: str) -> None:
        self._work = {"preload": preload, "request": request, "sound": sound}
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._files = tempfile.TemporaryDirectory(prefix="replay-forks-", ignore_cleanup_errors=True)
        self._ended = not AVAILABLE

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(
        self,
        target: str,
        request: Any,
        *,
        environment: Mapping[str, str | None],
        timeout: float | None = None,
        terminal: bool = False,
        interactive: bool = False,
        memory: int | None = None,
        stop: threading.Event | None = None,
    ) -> ChildResult:
        """As `fresh.call`. A call with variables of its own, or with the terminal, gets a new process."""
        limits = Limits.of(timeout, memory, stop)
        if not (environment or terminal or interactive):
            result = self._forked(target, request, limits)
            if result is not None:
                return result
        return fresh.call(
            target,
            request,
            environment=environment,
            timeout=timeout,
            terminal=terminal,
            interactive=interactive,
            memory=memory,
            stop=stop,
        )

    def close(self) -> None:
        """End the server and whatever it has forked."""
        with self._lock:
            self._ended = True
            if self._server is not None:
                self._server.stdin.close()  # type: ignore[union-attr]  # it is a pipe; its end ends the server
                self._server.wait()
                self._server = None
        self._files.cleanup()

    def _forked(self, target: str, request: Any, limits: Limits) -> ChildResult | None:
        """None: it could not be forked."""
        started = time.perf_counter()
        with fresh.handed(request) as directory:
            child = _Fork(self, directory)
            if not self._ask(f"{directory}\t{target}\n") or not child.started(limits):
                return None
            try:
                ending, reason = watch(child, limits, directory / "answer")
            finally:
                child.stop()
            if (directory / REFUSED).exists():
                return None
            return collect(directory, ending, reason, time.perf_counter() - started)

    def _ask(self, line: str) -> bool:
        with self._lock:
            if self._ended:
                return False
            if self._server is None:
                self._server = self._start()
            try:
                self._server.stdin.write(line.encode())  # type: ignore[union-attr]
                self._server.stdin.flush()  # type: ignore[union-attr]
            except OSError:
                self._ended = True  # its preload has failed: see the class
            return not self._ended

    def _start(self) -> subprocess.Popen[bytes]:
        directory = Path(self._files.name)
        (directory / "work").write_bytes(msgpack.packb(self._work))
        (directory / "tmp").mkdir()
        return subprocess.Popen(
            fresh.python("-m", "replay.isolation", "--forks", str(directory)),
            env={**fresh.merged({}), "TMPDIR": str(directory / "tmp")},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def alive(self) -> bool:
        """Whether the server may still fork."""
        with self._lock:
            return self._server is not None and self._server.poll() is None


class _Fork:
    """A forked child as `results.Child`. The server is its parent, and leaves its exit code in its directory."""

    def __init__(self, server: ForkServer, directory: Path) -> None:
        self._server, self._directory = server, directory
        self.pid = 0

    def started(self, limits: Limits) -> bool:
        """Wait until it was forked; False if it never will be."""
        while not (self._directory / "pid").exists():
            stopped = limits.stop is not None and limits.stop.is_set()
            if stopped or (self._directory / REFUSED).exists() or not self._server.alive():
                return False
            time.sleep(POLL)
        self.pid = int((self._directory / "pid").read_text(encoding="ascii"))
        return True

    def wait(self, seconds: float) -> int | None:
        code = self._directory / "code"
        if not code.exists():
            if not self._server.alive():
                return -signal.SIGKILL  # the server takes its children with it
            time.sleep(seconds)
        return int(code.read_text(encoding="ascii")) if code.exists() else None

    def stop(self) -> None:
        """End it and all that it has started."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
