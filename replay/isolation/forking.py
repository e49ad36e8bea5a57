"""The process that forks children: it imports, then waits for calls on its standard input. One thread, no device.

A line of input is `directory<TAB>target`; the rest is as for any child, see `child`. What became of it is told in
its directory: `pid`, then `code`, or `refused`.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import msgpack

from replay.isolation import child
from replay.isolation.forks import REFUSED


def serve(directory: str) -> None:
    """Preload, then fork for each line until the input ends; then end every child."""
    work = msgpack.unpackb((Path(directory) / "work").read_bytes(), strict_map_key=False)
    allowed = _threads_of_libraries()
    child.find(work["preload"])(work["request"])
    _Server(child.find(work["sound"]), allowed).run()


class _Server:
    """The loop: calls come in, children end."""

    def __init__(self, sound: Callable[[], bool], allowed: int) -> None:
        self._sound, self._allowed = sound, allowed
        self._running: dict[int, str] = {}  # pid -> directory
        self._wake, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes)

    def run(self) -> None:
        """Until the input ends; the process ends with it."""
        pending = b""
        while True:
            ready, _, _ = select.select([0, self._wake], [], [])
            if self._wake in ready:
                os.read(self._wake, 4096)
                self._reap()
            if 0 in ready:
                data = os.read(0, 65536)
                if not data:
                    break
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self._fork(*line.decode().split("\t"))
        for pid in self._running:
            _kill(pid)
        os._exit(0)  # taking torch down in good order takes a second, and nothing is left to do

    def _fork(self, directory: str, target: str) -> None:
        if _threads() > self._allowed:
            _leave(directory, REFUSED, "the forking process has more than one thread")
            return
        pid = os.fork()
        if pid == 0:
            self._be_child(directory, target)
        self._running[pid] = directory
        _leave(directory, "pid", str(pid))

    def _be_child(self, directory: str, target: str) -> None:
        """Never returns."""
        code = 1
        try:
            self._become_own(directory)
            if self._sound():
                child.serve(directory, target)
            else:
                _leave(directory, REFUSED, "the forking process has started a device")
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # noqa: BLE001 - nothing is above
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _become_own(self, directory: str) -> None:
        """As a new process would be: a session, standard streams, signals and temporary files of its own."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        log = os.open(Path(directory) / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for one, other in ((null, 0), (log, 1), (log, 2)):
            os.dup2(one, other)
        faulthandler.enable()
        os.environ["TMPDIR"] = str(Path(directory) / "tmp")
        tempfile.tempdir = None

    def _reap(self) -> None:
        while self._running:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            directory = self._running.pop(pid, None)
            if directory is not None:
                _leave(directory, "code", str(os.waitstatus_to_exitcode(status)))


def _threads_of_libraries() -> int:
    """Threads that may be there when a child is forked: NumPy's OpenBLAS ends its own and starts them again."""
    try:
        importlib.import_module("numpy")
    except ImportError:
        pass
    return _threads()


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _leave(directory: str, name: str, text: str) -> None:
    """A small file, whole or not there at all. A directory that is gone belongs to a call that was given up."""
    part = Path(directory) / f"{name}.part"
    try:
        part.write_text(text, encoding="ascii")
        part.rename(Path(directory) / name)
    except FileNotFoundError:
        pass


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
