"""Run a function in a child process: time, memory, signals and crashes become data.

Everything that is particular to a platform stands here. Request and answer are plain data in MessagePack files
of a private directory, so that whatever a child prints cannot be taken for its answer.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgpack

Ending = Literal["answered", "crashed", "timeout", "memory"]
"""How a child ended. `crashed`: without an answer, by a signal or an exit code."""

POLL = 0.02
"""Seconds between two looks at the child."""
MEMORY_SHARE = 0.9
"""A child may use this share of the machine's memory before it is stopped."""
TAIL = 8_000
"""Characters of a child's standard error that are kept."""
LINGER = 10.0
"""Seconds that a child may take to end after its answer: a thread of the user's may never end."""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """What became of a child process."""

    ending: Ending
    answer: Any  # plain data; None unless it answered
    reason: str  # "SIGSEGV", "exit code 3", "30 s", "21.6 GB"; empty where it answered
    phase: str  # the last phase that the child announced
    stderr: str  # the end of what it printed, unless that went to the terminal
    seconds: float


def call(
    target: str,
    request: Any,
    *,
    environment: Mapping[str, str | None],
    timeout: float | None = None,
    terminal: bool = False,
    interactive: bool = False,
    memory: int | None = None,
) -> ChildResult:
    """Call `module:function` with plain data in a new Python process, and wait.

    `environment`: variables to set over this process's; None: not set. `terminal`: the child's output is
    shown, not kept. `interactive`: it may read the keyboard. `memory`: bytes that it may use; None: a share of the
    machine's. The directory that the child gets as its private one, with caches and all, is removed afterwards.
    """
    directory = Path(tempfile.mkdtemp(prefix="replay-"))
    started = time.perf_counter()
    leads = not interactive and os.name == "posix"
    try:
        (directory / "request").write_bytes(msgpack.packb(request))
        with open(directory / "stderr", "wb") as log:
            output = None if terminal or interactive else log
            child = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "replay.isolation", str(directory), target],
                env={**_merged(environment), "TMPDIR": _scratch(directory)},
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=None if interactive else (output or 2),
                stderr=output,
                start_new_session=leads,
            )
            limits = _Limits(timeout or float("inf"), memory or _memory_limit() or float("inf"))
            ending, reason = _wait(child, limits, directory / "answer", leads=leads)
        answer = _answer(directory)
        if answer is not None:
            ending, reason = "answered", ""
        return ChildResult(
            ending=ending,
            answer=answer if ending == "answered" else None,
            reason=reason,
            phase=_text(directory / "phase"),
            stderr=_text(directory / "stderr")[-TAIL:],
            seconds=time.perf_counter() - started,
        )
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def announce(phase: str) -> None:
    """In a child: note what it is about to do, so that a crash can be placed. Elsewhere: nothing."""
    if _directory is not None:
        (_directory / "phase").write_text(phase, encoding="utf-8")


def private_directory() -> Path | None:
    """In a child: a directory of its own that goes away with it. Elsewhere: None."""
    return _directory


_directory: Path | None = None


def serve(directory: str, target: str) -> None:
    """The child's side of `call`."""
    global _directory  # noqa: PLW0603 - of this process, set once
    _directory = Path(directory)
    request = msgpack.unpackb((_directory / "request").read_bytes(), strict_map_key=False)
    module, _, name = target.partition(":")
    function: Callable[[Any], Any] = getattr(importlib.import_module(module), name)
    answer = msgpack.packb(function(request))
    part = _directory / "answer.part"
    part.write_bytes(answer)
    part.rename(_directory / "answer")


@dataclass(frozen=True, slots=True)
class _Limits:
    """What a child may use: seconds and bytes."""

    seconds: float
    memory: float


def _wait(
    child: subprocess.Popen[bytes], limits: _Limits, answer: Path, *, leads: bool
) -> tuple[Ending, str]:
    started = time.perf_counter()
    answered: float | None = None
    try:
        while True:
            try:
                code = child.wait(POLL)
                return "crashed", _describe(code)
            except subprocess.TimeoutExpired:
                now = time.perf_counter()
            if answered is None and answer.exists():
                answered = now
            if answered is not None and now - answered > LINGER:
                return "answered", ""
            if now - started > limits.seconds:
                return "timeout", f"{limits.seconds:g} s"
            used = _resident(child.pid)
            if used > limits.memory:
                return "memory", f"{used / 1e9:.1f} GB"
    finally:
        _stop(child, leads=leads)


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


def _describe(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _resident(pid: int) -> int:
    """Bytes of memory that a process uses; 0 where the platform does not say."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _memory_limit() -> int | None:
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * MEMORY_SHARE)
    except (ValueError, OSError, AttributeError):
        return None


def _merged(environment: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**os.environ, **_search_path(), **environment}
    return {name: value for name, value in merged.items() if value is not None}


def _search_path() -> dict[str, str]:
    """So that the child finds this very `replay` where it is not installed; nothing else of sys.path."""
    root = str(Path(__file__).resolve().parent.parent)
    if root in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        return {}
    before = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join([root, before]) if before else root}


def _scratch(directory: Path) -> str:
    scratch = directory / "tmp"
    scratch.mkdir()
    return str(scratch)


def _answer(directory: Path) -> Any:
    try:
        return msgpack.unpackb((directory / "answer").read_bytes(), strict_map_key=False)
    except FileNotFoundError:
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    # `python -m` makes this module twice: the one that announces is the imported one
    importlib.import_module("replay.isolation").serve(sys.argv[1], sys.argv[2])
