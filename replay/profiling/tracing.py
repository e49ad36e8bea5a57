"""A Chrome trace: one process for each compilation and each run, on one clock. Measures nothing.

Format: "Trace Event Format" (complete events "X" and metadata "M"), which Perfetto and chrome://tracing open.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replay import files

OPTION = "--trace"
ENDINGS = (".json", ".json.gz")


@dataclass(frozen=True, slots=True)
class Track:
    """The events of one part of one replay: (name, category, start and length in nanoseconds, thread)."""

    title: str
    events: tuple[tuple[str, str, int, int, str], ...]


def tracks(backend: str, how: str, events: Sequence[Sequence[Any]]) -> list[Track]:
    """What a replay's events are, by their part: compiling, running."""
    titles = {"compile": f"{backend}: compile, {how}", "run": f"{backend}: runs, profiled"}
    found = []
    for part, title in titles.items():
        own = tuple((str(n), str(c), int(s), int(d), str(t)) for p, n, c, s, d, t in events if p == part)
        if own:
            found.append(Track(title, own))
    return found


def check(path: Path) -> None:
    """UsageError unless the name and its directory will do."""
    files.check_place(path, ENDINGS, option=OPTION)


def write(path: Path, found: Sequence[Track]) -> None:
    """Write the trace; a crash or a full disk leaves no half of it under its name. UsageError if it cannot be."""
    text = json.dumps(
        {"displayTimeUnit": "ms", "traceEvents": list(_events(found))}, allow_nan=False
    ).encode()
    files.write(path, gzip.compress(text, mtime=0) if path.name.endswith(".gz") else text, option=OPTION)


def _events(found: Sequence[Track]) -> list[dict[str, Any]]:
    """Metadata and complete events; times are microseconds since the first of all."""
    origin = min((start for track in found for _, _, start, _, _ in track.events), default=0)
    events: list[dict[str, Any]] = []
    for number, track in enumerate(found, 1):
        events.append(_named("process_name", number, 0, track.title))
        events.append(
            {"ph": "M", "name": "process_sort_index", "pid": number, "tid": 0, "args": {"sort_index": number}}
        )
        threads: dict[str, int] = {}
        for _, _, _, _, thread in sorted(track.events, key=lambda one: one[2]):
            if thread not in threads:
                threads[thread] = len(threads) + 1
                events.append(_named("thread_name", number, threads[thread], f"thread {threads[thread]}"))
        events += [
            {
                "ph": "X",
                "name": name,
                "cat": category or "replay",
                "pid": number,
                "tid": threads[thread],
                "ts": (start - origin) / 1000,
                "dur": length / 1000,
            }
            for name, category, start, length, thread in sorted(
                track.events, key=lambda one: (one[2], -one[3])
            )
        ]
    return events


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}
