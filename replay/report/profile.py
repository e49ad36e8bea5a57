"""A profile, for people: run times first, then what compiling costs, then the operators. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TextIO

from replay.findings.profile import PHASES, Compilation, Hotspot, Measured, Profile, Timing
from replay.recording import UserFrame
from replay.report.page import Page
from replay.report.text import headline, show_size

NAME = 44
"""Letters of an operator's or kernel's name, unless all is to be seen."""
HOTSPOTS = 8
FAINT = 0.005
"""Phases below this share of a total are left to -v."""
UNSTEADY = 2.0
"""Runs of which the third quarter takes so many times the first say little."""
NOTHING = "-"


def draw_profile(found: Profile, stream: TextIO, *, verbose: int = 0) -> None:
    """Write the profile. `verbose`: 0: phases and operators of one compiled row; 1: of all, and all of them."""
    page = Page(stream)
    page.heading(f"{found.function}", f"recorded under {found.recorded}")
    draw_runs(page, found.rows)
    draw_failures(page, found.rows)
    draw_compilations(page, found.rows)
    chosen = found.rows if verbose else _telling(found.rows)
    for row in chosen:
        draw_phases(page, row, all_of_them=verbose > 0)
    for row in chosen:
        draw_hotspots(page, row, verbose=verbose)
    if found.notes or found.trace or any(row.notes for row in found.rows):
        page.gap()
    for note in found.notes:
        page.line(f"note: {note}", indent=0)
    for row in found.rows:
        for note in row.notes:
            page.line(f"note: {row.backend}: {note}", indent=0)
    if found.trace is not None:
        page.line(f"trace: {found.trace} (open it at https://ui.perfetto.dev)", indent=0)


def _telling(rows: Sequence[Measured]) -> list[Measured]:
    """Uncompiled and, of those that compiled, the one with the most phases."""
    compiled = [row for row in rows if row.cold is not None]
    most = max(compiled, key=lambda row: len(row.cold.phases) if row.cold else 0, default=None)
    return [row for row in rows if row.cold is None or row is most]


def draw_runs(page: Page, rows: Sequence[Measured]) -> None:
    """Forward and backward: one row for each backend with the median, the spread, the speed-up over uncompiled."""
    for name in ("forward", "backward"):
        timed = [(row, taken) for row in rows if (taken := getattr(row, name)) is not None]
        if not timed:
            continue
        page.heading(
            f"Run time, {name}", "memory: what a run allocates, at its peak" if name == "forward" else ""
        )
        page.table(
            ("backend", "median", "middle half", "fastest", "runs", "speed-up", "memory"),
            [_timed(row, name, taken) for row, taken in timed],
            right=(1, 2, 3, 4, 5, 6),
        )
        unsteady = [row.backend for row, taken in timed if taken.high > UNSTEADY * taken.low]
        if unsteady:
            page.line(
                f"unsteady: {', '.join(unsteady)}. Does something else use this machine?", style="yellow"
            )


def _timed(row: Measured, name: str, taken: Timing) -> tuple[str, ...]:
    return (
        row.backend,
        show_duration(taken.median),
        show_range(taken.low, taken.high),
        show_duration(taken.fastest),
        str(taken.runs),
        show_ratio(row.speedup[name]) if name in row.speedup else NOTHING,
        NOTHING if row.peak is None or name == "backward" else show_size(row.peak),
    )


def draw_failures(page: Page, rows: Sequence[Measured]) -> None:
    """What could not be measured, and why."""
    failed = [row for row in rows if row.failed]
    if not failed:
        return
    page.heading("Not measured")
    page.pairs((row.backend, _why(row)) for row in failed)
    if len(failed) == len(rows) > 1 and rows[0].error is not None:
        page.line("It fails under all of them, also uncompiled: there is nothing to time.")


def _why(row: Measured) -> str:
    if row.error is None:
        return row.refused or "it gave no result"
    return f"stage {row.error.stage}, {row.error.type}: {headline(row.error.message)}"


def draw_compilations(page: Page, rows: Sequence[Measured]) -> None:
    """What the first call costs, in three circumstances."""
    compiled = [row for row in rows if row.cold is not None]
    if not compiled:
        return
    page.heading("First call", "compiling, and one run; without what is loaded before")
    page.table(
        ("backend", "cold", "warm", "again", "graphs", "imports", "load"),
        [
            (
                row.backend,
                *(_total(one) for one in (row.cold, row.warm, row.again)),
                str(row.cold.graphs if row.cold else 0),
                show_duration(row.cold.phases.get("imports", 0.0) if row.cold else 0.0),
                show_duration(row.load),
            )
            for row in compiled
        ],
        right=range(1, 7),
    )
    page.line("cold: fresh process, empty caches; warm: fresh process, the cold one's caches", style="dim")
    page.line("again: the same process after torch._dynamo.reset(); load: torch, the frame", style="dim")


def _total(one: Compilation | None) -> str:
    return NOTHING if one is None else show_duration(one.seconds)


def draw_phases(page: Page, row: Measured, *, all_of_them: bool) -> None:
    """Where the first call's time went; the rows add up to the total."""
    if row.cold is None:
        return
    columns = [(name, one) for name in ("cold", "warm", "again") if (one := getattr(row, name)) is not None]
    names = [name for name in PHASES if any(name in one.phases for _, one in columns)]
    small = [] if all_of_them else [name for name in names if _is_faint(name, [one for _, one in columns])]
    page.heading("First call by phase", row.backend)
    lines = [
        (PHASES[name], *_phase([one.phases.get(name, 0.0) for _, one in columns], row.cold))
        for name in names
        if name not in small
    ]
    if small:
        sums = [sum(one.phases.get(name, 0.0) for name in small) for _, one in columns]
        lines.append((f"{len(small)} smaller (-v lists them)", *_phase(sums, row.cold)))
    lines.append(("total", *_phase([one.seconds for _, one in columns], row.cold)))
    page.table(("phase", "of cold", *(name for name, _ in columns)), lines, right=range(1, len(columns) + 2))
    if row.cold.aside > 0:
        page.line(
            f"beside it, compilers in other threads: {show_duration(row.cold.aside)} (cold)", style="dim"
        )
    for name, one in columns:
        if one.caches:
            counted = ", ".join(f"{key} {count}" for key, count in one.caches.items())
            page.line(f"torch's caches, {name}: {counted}", style="dim")


def _phase(seconds: Sequence[float], cold: Compilation) -> Iterator[str]:
    yield f"{seconds[0] / cold.seconds:.1%}" if cold.seconds else NOTHING
    for one in seconds:
        yield show_duration(one) if one else NOTHING


def _is_faint(name: str, columns: Sequence[Compilation]) -> bool:
    return all(one.phases.get(name, 0.0) < FAINT * one.seconds for one in columns)


def draw_hotspots(page: Page, row: Measured, *, verbose: int) -> None:
    """Operators and kernels with the most time of their own, and the user's lines where they are known."""
    if not row.hotspots:
        return
    shown = row.hotspots if verbose else row.hotspots[:HOTSPOTS]
    page.heading(f"Operators and kernels: {row.backend}", "own time in one run, under torch's profiler")
    page.table(
        ("time", "share", "calls", "name"),
        [
            (
                show_duration(one.seconds),
                f"{one.share:.1%}",
                f"{one.calls:.4g}",
                _name(one, whole=bool(verbose)),
            )
            for one in shown
        ],
        right=(0, 1, 2),
    )
    left = len(row.hotspots) - len(shown)
    if left:
        page.line(f"... {left} more (-v lists them)", style="dim")


def _name(one: Hotspot, *, whole: bool) -> str:
    """Of a generated name, which can have hundreds of letters, the beginning and the end tell most."""
    device = "" if one.device == "cpu" else f" on {one.device}"
    name = one.name
    if not whole and len(name) > NAME:
        name = f"{name[: NAME - 16]}...{name[-13:]}"
    return f"{name}{device}{_lines(one.places)}"


def _lines(places: Sequence[UserFrame]) -> str:
    """` <- block.py:8, 9`: the lines of each file."""
    files: dict[str, list[str]] = {}
    for one in places:
        files.setdefault(PurePath(one.file).name, []).append(str(one.line))
    told = "; ".join(f"{file}:{', '.join(dict.fromkeys(lines))}" for file, lines in files.items())
    return f" <- {told}" if told else ""


def show_ratio(ratio: float) -> str:
    """2.41 or, of less than a tenth, 0.0038: how many times as fast."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def show_duration(seconds: float) -> str:
    """Three digits and a unit: 4.20 us, 13.1 ms, 2.50 s."""
    number, unit = _scaled(seconds)
    return f"{number} {unit}"


def show_range(low: float, high: float) -> str:
    """Two durations, the unit once where it is the same: 4.10-4.80 ms, 410 us-4.80 ms."""
    number, unit = _scaled(low)
    first = number if unit == _scaled(high)[1] else f"{number} {unit}"
    return f"{first}-{show_duration(high)}"


def _scaled(seconds: float) -> tuple[str, str]:
    scale, unit = next(
        ((scale, unit) for scale, unit in ((1.0, "s"), (1e3, "ms")) if seconds * scale >= 1), (1e6, "us")
    )
    number = seconds * scale
    digits = 2 if number < 10 else 1 if number < 100 else 0
    return f"{number:.{digits}f}", unit
