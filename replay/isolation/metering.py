"""What a sandbox uses as a whole, seen from outside (Linux): processes, threads, memory, bytes written.

A limit of one process does not stop many, and the kernel's limit of processes does not hold the machine's root; here
all descendants are counted. A sandbox that breaks a limit is ended from outside, as with the time.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from replay.isolation.results import Broken, resident

PROCESSES = 256
"""At a time. Inductor compiles with up to 32 workers, each of which runs a compiler of three processes."""
TASKS = 4096
"""Processes and threads at a time."""
WRITTEN = 8 << 30
"""Bytes of files in the directories on the disk, but at most half of what is free there; the same for each file."""
ENTRIES = 100_000
"""Files and directories there."""
RESERVE = 0.03
"""Share of the machine's memory that must stay free: what is in no process (pipes, files in memory) counts too."""

_PERIOD = 0.5
"""Seconds between two looks at the files."""


@dataclass(slots=True)
class Meter:
    """Measures the tree of processes under one, and the files in directories."""

    memory: float  # bytes
    written: int  # bytes
    directories: tuple[Path, ...]
    _looked: float = field(default=0.0)

    def broken(self, pid: int) -> Broken | None:
        """The limit that is broken, if one is."""
        family = descendants(pid)
        if len(family) > PROCESSES:
            return "processes", f"{len(family)} processes"
        tasks = sum(map(_threads, family))
        if tasks > TASKS:
            return "processes", f"{tasks} processes and threads"
        return self._memory(pid, family) or self._files()

    def _memory(self, pid: int, family: list[int]) -> Broken | None:
        # Shared pages are counted for each; who seems to be over the limit is measured exactly, which takes longer:
        # long enough for a fork bomb to grow meanwhile.
        if sum(map(resident, family)) > self.memory:
            used = 0
            for one in family:
                used += _proportional(one)
                if used > self.memory:
                    return "memory", f"{used / 1e9:.1f} GB"
                if len(descendants(pid)) > PROCESSES:
                    return "processes", f"more than {PROCESSES} processes"
        whole, free = _machine()
        if free < RESERVE * whole:
            return "memory", f"the machine had {free / 1e9:.1f} GB left"
        return None

    def _files(self) -> Broken | None:
        now = time.monotonic()
        if now - self._looked < _PERIOD:
            return None
        self._looked = now
        written = 0
        for directory in self.directories:
            try:
                taken, entries = size(directory)
            except PermissionError:
                return "files", "a directory that cannot be looked into"
            if entries >= ENTRIES:
                return "files", f"{ENTRIES} files"
            written += taken
        return ("files", f"{written / 1e9:.1f} GB written") if written > self.written else None


def descendants(pid: int) -> list[int]:
    """A process and all under it. In a sandbox, a process whose parent ends gets another one of the sandbox."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) <= PROCESSES:
        one = waiting.pop()
        found.append(one)
        waiting += _children(one)
    return found


def allowed(directory: Path) -> int:
    """Bytes that may be written to a directory now."""
    return min(WRITTEN, shutil.disk_usage(directory).free // 2)


def size(directory: Path) -> tuple[int, int]:
    """Bytes that the files under a directory take up on the disk, and how many there are, counted up to ENTRIES.

    PermissionError for what cannot be looked into. A tree may be of any depth: nothing here goes down by recursion.
    """
    total, count, waiting = 0, 0, [os.fspath(directory)]
    while waiting and count < ENTRIES:
        try:
            with os.scandir(waiting.pop()) as entries:
                for one in itertools.islice(entries, ENTRIES - count):
                    count += 1
                    total += one.stat(follow_symlinks=False).st_blocks * 512
                    if one.is_dir(follow_symlinks=False):
                        waiting.append(one.path)
        except PermissionError:
            raise
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return total, ENTRIES  # too deep to be any of ours
            continue  # gone meanwhile
    return total, count


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    except OSError:  # gone meanwhile
        pass
    return found


def _threads(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - 2
    except OSError:
        return 0


def _proportional(pid: int) -> int:
    """Bytes of memory, shared pages divided among those that share them."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) << 10
    except (OSError, ValueError, IndexError):
        return resident(pid)


def _machine() -> tuple[int, int]:
    """Bytes of the machine's memory, and of what is available of it."""
    found = {}
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                name, _, rest = line.partition(":")
                found[name] = int(rest.split()[0]) << 10
    except (OSError, ValueError, IndexError):
        return 0, 0
    return found.get("MemTotal", 0), found.get("MemAvailable", found.get("MemTotal", 0))
