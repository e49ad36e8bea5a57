"""The instrument of `replay.profile`: how long a frame takes to compile and to run. It lives in the replaying process.

It measures before the session makes its own call, so that neither the session's hooks nor its comparisons cost
anything. What the frame raises meanwhile is left for the session's call to raise again, and to judge.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from replay import isolation
from replay.findings.profile import Compilation, Hotspot, Timing
from replay.recording import Outcome
from replay.replayer.instruments import Instrument
from replay.replayer.preparation import Prepared
from replay.replayer.seen import Seen
from replay.torch_adapter import (
    backward_nodes,
    compiling,
    hooks,
    phases,
    profiler,
    provenance,
    runs,
    spans,
    stances,
    state,
)

PROFILED = 3
"""Runs under torch's profiler."""
SETTLING = 4
"""Calls, at most, until nothing is compiled any more."""
HOTSPOTS = 40
"""Rows of the profiler's table that are kept."""
EVENTS = 20_000
"""Events of a trace that are kept."""


@dataclass(frozen=True, slots=True)
class _First:
    """What the first call told."""

    compilation: Compilation
    spans: Sequence[spans.Span]
    lines: provenance.Lines


class Stopwatch(Instrument):
    """Times one frame under one backend.

    `seconds`, `most`: how long, and how often at most, it is run. `compiles_only`: stop after the first call.
    `trace`: keep the events.
    """

    def __init__(
        self, seconds: float, most: int, *, compiles_only: bool = False, trace: bool = False
    ) -> None:
        self._seconds, self._most = seconds, most
        self._compiles_only, self._trace = compiles_only, trace
        self._found: dict[str, Any] = {}
        self._notes: list[str] = []

    @contextmanager
    def around(self, prepared: Prepared, seen: Seen) -> Iterator[None]:
        """Measure, then let the session make its own call as if nothing had been called yet."""
        if prepared.task.place.fakes is not None:
            self._found["fake"] = True
            yield
            return
        with ExitStack() as stack:
            if not prepared.task.compiles:
                stack.enter_context(stances.uncompiled())
            stack.enter_context(compiling.headers_kept_with_caches())
            inside = prepared.task.manifest.compile.entry == "compiled_autograd"
            stack.enter_context(backward_nodes.region(inside=inside))
            if not self._measure(prepared):
                _forget(prepared)
        state.seed(prepared.task.manifest.state)
        yield

    def found(self, outcome: Outcome) -> Any:
        """Plain data: `first`, `again`, `forward`, `backward`, `peak`, `hotspots`, `events`, `notes`."""
        return {**self._found, "notes": self._notes}

    def _measure(self, prepared: Prepared) -> bool:
        """Whether nothing was raised. Whatever the frame has written to is put back."""
        isolation.announce("compile" if prepared.task.compiles else "run")
        try:
            repeated = runs.Repeated(
                prepared.compiled(), prepared.positional, prepared.keywords, backward=prepared.task.backward
            )
            try:
                self._measure_all(prepared, repeated)
            finally:
                repeated.put_back()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the session's own call raises it again
            if "first" in self._found or "forward" in self._found:
                text = (str(error).splitlines() or [""])[0]
                self._notes.append(f"called once more, the frame raised {type(error).__name__}: {text}")
            return False
        return True

    def _measure_all(self, prepared: Prepared, repeated: runs.Repeated) -> None:
        compiles = prepared.task.compiles
        first = _first_call(repeated)
        if compiles:
            self._found["first"] = asdict(first.compilation)
            self._keep("compile", _of_compiler(first.spans))
            if not first.compilation.graphs:
                self._notes.append("no graph was compiled: the frame ran as it does uncompiled")
        if self._compiles_only:
            return
        _settle(repeated)
        isolation.announce("run")
        self._time(repeated)
        self._profile(repeated, first.lines)
        if compiles:
            isolation.announce("compile")
            _forget(prepared)
            self._found["again"] = asdict(_first_call(repeated).compilation)

    def _time(self, repeated: runs.Repeated) -> None:
        graphs = hooks.graphs()
        found = repeated.repeat(seconds=self._seconds, most=self._most)
        if hooks.graphs() != graphs:
            self._notes.append(f"graphs that were compiled while it was timed: {hooks.graphs() - graphs}")
        self._found["forward"] = asdict(_timing([one.forward for one in found]))
        backward = [one.backward for one in found if one.backward is not None]
        if backward:
            self._found["backward"] = asdict(_timing(backward))

    def _profile(self, repeated: runs.Repeated, lines: provenance.Lines) -> None:
        seen = profiler.profiled(repeated.run, PROFILED)
        self._found["peak"] = seen.peak
        totals: dict[str, float] = {}
        for one in seen.table:
            totals[one.device] = totals.get(one.device, 0.0) + one.seconds
        hottest = sorted(seen.table, key=lambda one: -one.seconds)[:HOTSPOTS]
        self._found["hotspots"] = [
            asdict(
                Hotspot(
                    name=one.name,
                    device=one.device,
                    calls=one.calls / PROFILED,
                    seconds=one.seconds / PROFILED,
                    share=one.seconds / totals[one.device],
                    places=lines.of(one.name),
                )
            )
            for one in hottest
            if one.seconds > 0
        ]
        self._keep("run", [(one.name, one.category, one.start, one.length, one.track) for one in seen.events])

    def _keep(self, part: str, events: Sequence[tuple[str, str, int, int, str]]) -> None:
        if not self._trace:
            return
        if len(events) > EVENTS:
            self._notes.append(f"the trace has {EVENTS} of {len(events)} events of the {part}: the longest")
            events = sorted(events, key=lambda one: -one[3])[:EVENTS]
        kept = self._found.setdefault("events", [])
        kept += [[part, *one] for one in events]


def _first_call(repeated: runs.Repeated) -> _First:
    """Call what is not compiled yet, and say where the time went."""
    known, graphs = phases.cache_counts(), hooks.graphs()
    with provenance.tracking() as lines, spans.collected(lines.read) as collected:
        run = repeated.run()
    parts, aside = phases.split(collected.ended, threading.get_ident())
    parts["run"] = max(0, run.total - sum(parts.values()))
    counts = {name: count - known[name] for name, count in phases.cache_counts().items()}
    compilation = Compilation(
        seconds=sum(parts.values()) / 1e9,
        phases={name: spent / 1e9 for name, spent in parts.items()},
        aside=aside / 1e9,
        caches={name: count for name, count in counts.items() if count},
        graphs=hooks.graphs() - graphs,
    )
    return _First(compilation, collected.ended, lines)


def _settle(repeated: runs.Repeated) -> None:
    """Call it until nothing is compiled any more: shapes may become dynamic, a backward may be lazy."""
    for _ in range(SETTLING):
        before = hooks.graphs()
        repeated.run()
        if hooks.graphs() == before:
            return


def _forget(prepared: Prepared) -> None:
    """Nothing is compiled any more, but what the recording had compiled before."""
    compiling.reset()
    prepared.repeat_calls(prepared.compiled())


def _timing(taken: Sequence[int]) -> Timing:
    seconds = sorted(one / 1e9 for one in taken)
    low, median, high = (
        statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else seconds * 3
    )
    return Timing(runs=len(seconds), median=median, low=low, high=high, fastest=seconds[0])


def _of_compiler(ended: Sequence[spans.Span]) -> list[tuple[str, str, int, int, str]]:
    return [
        (one.name, phases.phase_of(one), one.start, one.end - one.start, f"{one.thread}") for one in ended
    ]
