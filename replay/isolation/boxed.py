"""A child that is a new Python process in a sandbox: whatever runs there is not to be trusted, and neither is its word.

It speaks to a terminal only through this process, which escapes what could steer it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from replay.isolation import fresh, metering, sandbox
from replay.isolation.results import ChildResult, Limits, collect, watch
from replay.isolation.sandbox import Sandbox

SHELL = 128
"""bubblewrap ends with this number and the signal's, where a signal has ended the child."""
PATIENCE = 10.0
"""Seconds in which the kernel has ended all of a sandbox that was killed."""

_STEERING = re.compile(
    r"[^\S \n\t]|[^\s\x20-\x7e\u00a1-\ufffd]|[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)


def call_in_sandbox(
    target: str,
    request: Any,
    *,
    within: Sandbox,
    environment: Mapping[str, str | None],
    timeout: float | None = None,
    terminal: bool = False,
    interactive: bool = False,
    memory: int | None = None,
    stop: threading.Event | None = None,
) -> ChildResult:
    """As `fresh.call`; the child sees what `within` names, and all that it starts counts.

    It gets few of this process's variables. ValueError for `interactive`: nobody types into a sandbox.
    """
    if interactive:
        raise ValueError("a sandbox has no keyboard")
    started = time.perf_counter()
    with fresh.handed(request) as directory:
        limits = Limits.of(timeout, memory, stop)
        written = metering.allowed(directory)
        meter = metering.Meter(limits.memory, written, (directory, *within.writable))
        limits = Limits(limits.seconds, limits.memory, limits.stop, meter)
        confined = ["--confined", str(metering.TASKS), str(written), str(directory), target]
        with _started(within, confined, environment, directory, terminal=terminal) as child:
            ending, reason = watch(_Boxed(child), limits, directory / "answer")
        return collect(directory, ending, reason, time.perf_counter() - started)


@contextmanager
def _started(
    within: Sandbox,
    confined: list[str],
    environment: Mapping[str, str | None],
    directory: Path,
    *,
    terminal: bool,
) -> Iterator[subprocess.Popen[bytes]]:
    """The sandbox; after the block nothing of it runs any more."""
    inner = fresh.python("-m", "replay.isolation", *confined)
    own = {"PYTHONPATH": fresh.checkout(), "TMPDIR": str(directory / "tmp")}
    variables = sandbox.variables({**own, **environment})
    with open(directory / "stderr", "wb") as log:
        child = subprocess.Popen(
            sandbox.command(within, directory, inner),
            env=variables,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if terminal else log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    relay = None if child.stdout is None else _relay(child.stdout)
    try:
        yield child
    finally:
        _end(child)
        if relay is not None:
            relay.join(PATIENCE)


class _Boxed:
    """bubblewrap as `results.Child`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def wait(self, seconds: float) -> int | None:
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return SHELL - code if code > SHELL else code


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill bubblewrap: the sandbox's first process dies with it, and with that one the kernel ends all others."""
    inside = metering.descendants(child.pid)[1:]
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    child.wait()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and any(os.path.exists(f"/proc/{one}") for one in inside):
        time.sleep(0.01)


def _relay(stream: IO[bytes]) -> threading.Thread:
    """Show what comes, line by line, on standard error."""

    def work() -> None:
        for line in iter(lambda: stream.readline(65536), b""):
            sys.stderr.write(_STEERING.sub(_escape, line.decode(errors="backslashreplace")))
            sys.stderr.flush()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _escape(found: re.Match[str]) -> str:
    return ascii(found.group())[1:-1]
