"""torch's profiler over a few runs: operators and kernels by their own time, memory, and all events for a trace.

Inductor's C++ kernels are no operators, and the profiler does not see them: they are called by their names here.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replay.torch_adapter import features
from replay.torch_adapter.patching import patched

_CPP = "cpp_"
"""How the names of Inductor's C++ kernels begin."""
_MEMORY = "[memory]"
_ITS_OWN = frozenset({"Activity Buffer Request", "ProfilerStep*"})
"""What the profiler itself takes time for, in its table."""


@dataclass(frozen=True, slots=True)
class Own:
    """An operator's or kernel's own time, over all runs."""

    name: str
    device: str
    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Event:
    """One stretch of time of the profiler's; nanoseconds since the epoch."""

    name: str
    category: str
    start: int
    length: int
    track: str


@dataclass(frozen=True, slots=True)
class Profiled:
    """What the profiler saw. `peak`: bytes; None where it saw no allocation."""

    table: tuple[Own, ...]
    events: tuple[Event, ...]
    peak: int | None


def profiled(run: Callable[[], object], runs: int) -> Profiled:
    """Run so often under torch's profiler. The first use of the profiler sets it up: that one is not kept."""
    profiler = features.module("torch.profiler")
    with named_kernels():
        for _ in ("to set up", "to keep"):
            with profiler.profile(activities=_activities(profiler), profile_memory=True) as profile:
                started = time.time_ns()
                for _ in range(runs):
                    run()
    events = _exported(profile)
    return Profiled(
        table=tuple(_own(one) for one in profile.key_averages() if one.key not in _ITS_OWN),
        events=tuple(_events(events, started)),
        peak=_peak(events),
    )


@contextmanager
def named_kernels() -> Iterator[None]:
    """The profiler shows each C++ kernel that Inductor has generated so far, by its name."""
    record = features.module("torch").profiler.record_function
    codecache = sys.modules.get("torch._inductor.codecache")  # not there: Inductor has generated nothing
    cache = None if codecache is None else features.require(codecache, "PyCodeCache")

    def named(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(kernel)
        def call(*arguments: Any) -> Any:
            with record(name):
                return kernel(*arguments)

        return call

    with ExitStack() as stack:
        for module in () if cache is None else features.require(cache, "modules"):
            kernels = [name for name in vars(module) if name.startswith(_CPP)]
            for name in kernels:
                kernel = getattr(module, name)
                if callable(kernel):
                    stack.enter_context(patched(module, name, named(name, kernel)))
        yield


def _activities(profiler: Any) -> list[Any]:
    kinds = [profiler.ProfilerActivity.CPU]
    if features.module("torch").cuda.is_available():
        kinds.append(profiler.ProfilerActivity.CUDA)
    return kinds


def _own(average: Any) -> Own:
    """A row of the profiler's table. Its times are microseconds."""
    device = str(average.device_type).rpartition(".")[2].lower()
    own = average.self_cpu_time_total if device == "cpu" else average.self_device_time_total
    return Own(str(average.key), device, int(average.count), own / 1e6)


def _exported(profile: Any) -> Mapping[str, Any]:
    """The profiler's own Chrome trace; the only public form that has memory and all threads."""
    with tempfile.TemporaryDirectory(prefix="replay-trace-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        return found


def _events(trace: Mapping[str, Any], started: int) -> Iterator[Event]:
    """The complete events, at their time: the profiler counts microseconds from a base that it names.

    A torch that names none has its first event moved to where the run started.
    """
    complete = [one for one in trace["traceEvents"] if one.get("ph") == "X" and one.get("cat") != "Trace"]
    if not complete:
        return
    first = min(float(one["ts"]) for one in complete)
    base = trace.get("baseTimeNanoseconds")
    base = started - round(first * 1000) if base is None else int(base)
    for one in complete:
        yield Event(
            name=str(one["name"]),
            category=str(one.get("cat", "")),
            start=base + round(float(one["ts"]) * 1000),
            length=round(float(one.get("dur", 0)) * 1000),
            track=f"{one.get('pid')} {one.get('tid')}",
        )


def _peak(trace: Mapping[str, Any]) -> int | None:
    """The most bytes that were allocated at a time since the start, on the device that had most."""
    now: dict[Any, int] = {}
    peak: dict[Any, int] = {}
    for one in sorted(
        (e for e in trace["traceEvents"] if e.get("name") == _MEMORY), key=lambda e: float(e["ts"])
    ):
        device = (one["args"].get("Device Type"), one["args"].get("Device Id"))
        now[device] = now.get(device, 0) + int(one["args"].get("Bytes", 0))
        peak[device] = max(peak.get(device, 0), now[device])
    return max(peak.values(), default=None)
