"""A child that is a new Python process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgpack

from replay.isolation.results import ChildResult, Ending, Limits, collect, watch


def call(
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
    """Call `module:function` with plain data in a new Python process, and wait.

    `environment`: variables to set over this process's; None: not set. `terminal`: the child's output is
    shown, not kept. `interactive`: it may read the keyboard. `memory`: bytes that it may use; None: a share of the
    machine's. `stop`: once set, the child is ended. The directory that the child gets as its private one, with
    caches and all, is removed afterwards.
    """
    started = time.perf_counter()
    leads = not interactive and os.name == "posix"
    with handed(request) as directory:
        with open(directory / "stderr", "wb") as log:
            output = None if terminal or interactive else log
            child = subprocess.Popen(
                python("-m", "replay.isolation", str(directory), target),
                env={**merged(environment), "TMPDIR": str(directory / "tmp")},
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=None if interactive else (output or 2),
                stderr=output,
                start_new_session=leads,
            )
            try:
                ending, reason = _watch(child, Limits.of(timeout, memory, stop), directory)
            finally:
                _stop(child, leads=leads)
        return collect(directory, ending, reason, time.perf_counter() - started)


@contextmanager
def handed(request: Any) -> Iterator[Path]:
    """A private directory with a request in it and a place for temporary files; it goes away with the block."""
    directory = Path(tempfile.mkdtemp(prefix="replay-"))
    try:
        (directory / "request").write_bytes(msgpack.packb(request))
        (directory / "tmp").mkdir()
        yield directory
    finally:
        remove(directory)


def remove(directory: Path) -> None:
    """Remove a directory with all that is in it, also what a child has made hard to remove."""
    with suppress(RecursionError):  # a tree that is too deep for Python's own
        shutil.rmtree(directory, ignore_errors=True)
    if directory.exists() and os.name == "posix":
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", directory], stderr=subprocess.DEVNULL, check=False)


def python(*arguments: str) -> list[str]:
    """The command line of a Python process of ours."""
    return [sys.executable, "-X", "faulthandler", *arguments]


def merged(environment: Mapping[str, str | None]) -> dict[str, str]:
    """The variables of this process with others over them; None: not set."""
    everything = {**os.environ, **_search_path(), **environment}
    return {name: value for name, value in everything.items() if value is not None}


class _Popen:
    """A process as `results.Child`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


def _watch(child: subprocess.Popen[bytes], limits: Limits, directory: Path) -> tuple[Ending, str]:
    return watch(_Popen(child), limits, directory / "answer")


def _stop(child: subprocess.Popen[bytes], *, leads: bool) -> None:
    """End the child and, where it leads a session, all that it started, also if it has ended itself."""
    try:
        if leads:
            os.killpg(child.pid, signal.SIGKILL)
        elif child.poll() is None:
            child.kill()
    except (ProcessLookupError, PermissionError):
        pass
    child.wait()


def checkout() -> str | None:
    """The directory that this very `replay` is imported from; None where it is installed among the packages."""
    root = str(Path(__file__).resolve().parent.parent.parent)
    return None if root in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")} else root


def _search_path() -> dict[str, str]:
    """So that the child finds this very `replay` where it is not installed; nothing else of sys.path."""
    root, before = checkout(), os.environ.get("PYTHONPATH", "")
    if root is None:
        return {}
    return {"PYTHONPATH": os.pathsep.join([root, before]) if before else root}
