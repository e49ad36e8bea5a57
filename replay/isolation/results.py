"""What becomes of a child, and the limits that it has. Starts none."""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import msgpack

Ending = Literal["answered", "crashed", "timeout", "memory", "processes", "files", "stopped"]
"""How a child ended. `crashed`: without an answer, by a signal or an exit code; `stopped`: nobody waits any more.

`processes` and `files`: of a sandbox that had too many of them, or wrote too much.
"""

Broken = tuple[Ending, str]
"""A limit that was broken, and how much was used."""

POLL = 0.02
"""Seconds between two looks at the child."""
MEMORY_SHARE = 0.9
"""A child may use this share of the machine's memory before it is stopped."""
TAIL = 8_000
"""Characters of a child's standard error that are kept."""
ANSWER = 256 << 20
"""Bytes of a child's answer, at most."""
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


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use. `stop`: set when nobody waits for it any more."""

    seconds: float = float("inf")
    memory: float = float("inf")  # bytes
    stop: threading.Event | None = None
    meter: Meter | None = None  # of a sandbox; else the child's own memory is what counts

    @classmethod
    def of(cls, timeout: float | None, memory: int | None, stop: threading.Event | None) -> Limits:
        """None or 0 seconds: no limit. None bytes: a share of the machine's."""
        return cls(timeout or float("inf"), memory or memory_limit() or float("inf"), stop)

    def broken(self, pid: int) -> Broken | None:
        """What a child with this id uses too much of, if it does."""
        if self.meter is not None:
            return self.meter.broken(pid)
        used = resident(pid)
        return ("memory", f"{used / 1e9:.1f} GB") if used > self.memory else None


class Meter(Protocol):
    """What measures more than one process."""

    def broken(self, pid: int) -> Broken | None:
        """The limit that a child and its own children break, if they do."""


class Child(Protocol):
    """A child that runs."""

    pid: int

    def wait(self, seconds: float) -> int | None:
        """Its exit code, negative for a signal, if it ends within that time."""


def watch(child: Child, limits: Limits, answer: Path) -> Broken:
    """Wait until the child ends, has answered and lingers, or breaks a limit; it is not stopped here."""
    started = time.perf_counter()
    answered: float | None = None
    while True:
        code = child.wait(POLL)
        if code is not None:
            return "crashed", _describe(code)
        now = time.perf_counter()
        if answered is None and answer.exists():
            answered = now
        if answered is not None and now - answered > LINGER:
            return "answered", ""
        if limits.stop is not None and limits.stop.is_set():
            return "stopped", "nobody waits for it any more"
        if now - started > limits.seconds:
            return "timeout", f"{limits.seconds:g} s"
        broken = limits.broken(child.pid)
        if broken is not None:
            return broken


def collect(directory: Path, ending: Ending, reason: str, seconds: float) -> ChildResult:
    """The result of a child that has ended, from what it left in its directory."""
    answer = _answer(directory)
    if answer is not None:
        ending, reason = "answered", ""
    return ChildResult(
        ending=ending,
        answer=answer,
        reason=reason,
        phase=_text(directory / "phase"),
        stderr=_text(directory / "stderr")[-TAIL:],
        seconds=seconds,
    )


def memory_limit() -> int | None:
    """Bytes that one child may use; None where the platform does not say how much there is."""
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * MEMORY_SHARE)
    except (ValueError, OSError, AttributeError):
        return None


def _describe(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def resident(pid: int) -> int:
    """Bytes of memory that a process uses; 0 where the platform does not say."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _answer(directory: Path) -> Any:
    data = _read(directory / "answer", ANSWER)
    try:
        return msgpack.unpackb(data, strict_map_key=False) if data else None
    except (ValueError, msgpack.UnpackException):  # not what `child.serve` writes: something else did
        return None


def _text(path: Path) -> str:
    return _read(path, -8 * TAIL).decode("utf-8", errors="replace")


def _read(path: Path, most: int) -> bytes:
    """A child's file, if it is a plain one: a hostile child leaves links and pipes. Below zero: so much of its end.

    A file that is longer than `most` is none of ours, and reads as if it were not there.
    """
    try:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with open(os.open(path, flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or (0 < most < found.st_size):
                return b""
            if most < 0:
                file.seek(max(0, found.st_size + most))
            return file.read(abs(most))
    except OSError:
        return b""
