"""A function's source with what became of each line beneath it. Nothing here knows torch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from replay.findings.explanation import ExplainedFrame, Explanation
from replay.recording import UserFrame
from replay.report.page import Page
from replay.report.text import clean

WHOLE = 40
"""A function of so many lines is shown whole; of a longer one only what lies around lines with a note."""
AROUND = 1
NAMES = 4


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of a file to be shown."""

    title: str
    file: str
    first: int
    last: int


def draw_annotated(page: Page, explained: Explanation, frame: ExplainedFrame, *, verbose: int) -> None:
    """The frame's own source, and that of each function of the user's that was traced into it."""
    own = _Part("", frame.file, frame.line, frame.last_line)
    _draw_part(page, explained, own, _notes(frame, own), frame.file, verbose=verbose)
    for one in frame.inlined:
        inside = frame.file == one.file and frame.line <= one.line <= frame.last_line
        if not one.of_torch and not inside:
            part = _Part(f"{one.function}, inlined", one.file, one.line, one.last_line)
            _draw_part(page, explained, part, _notes(frame, part), frame.file, verbose=verbose)


def place_of(file: str, line: int, home: str) -> str:
    """`line 12`; of another file than `home`, with its name."""
    return f"line {line}" if file == home else f"{file}:{line}"


def _notes(frame: ExplainedFrame, part: _Part) -> dict[int, list[str]]:
    """Line -> what became of it."""
    found: dict[int, list[str]] = defaultdict(list)
    for graph in frame.graphs:
        targets: dict[int, list[str]] = defaultdict(list)
        for op in graph.ops:
            line = _line_in(part, op.stack)
            if line is not None:
                targets[line].append(op.target)
        for line, names in targets.items():
            where = f"graph {graph.number}" if graph.finished else "graph so far"
            found[line].append(f"{where}: {_list(names)}")
    for number, one in enumerate(frame.breaks, start=1):
        line = _line_in(part, one.stack)
        if line is not None:
            found[line].append(f"graph break {number}: {one.kind}")
    if frame.error is not None:
        line = _line_in(part, frame.error.user_frames)
        if line is not None:
            found[line].append(f"failed here: stage {frame.error.stage}")
    return found


def _line_in(part: _Part, stack: Sequence[UserFrame]) -> int | None:
    """The outermost line of a stack that lies in the part."""
    inside = (at.line for at in stack if at.file == part.file and part.first <= at.line <= part.last)
    return next(inside, None)


def _list(names: Sequence[str]) -> str:
    counted = Counter(names)
    words = [f"{name} {times}" if times > 1 else name for name, times in counted.items()]
    more = f" and {len(words) - NAMES} more" if len(words) > NAMES else ""
    return ", ".join(words[:NAMES]) + more


def _draw_part(
    page: Page,
    explained: Explanation,
    part: _Part,
    notes: dict[int, list[str]],
    home: str,
    *,
    verbose: int,
) -> None:
    text = explained.texts.get(part.file)
    lines = [] if text is None else clean(text).split("\n")
    if part.title and not notes:
        return
    page.gap()
    if part.title:
        page.line(f"{part.title}, {place_of(part.file, part.first, home)}")
    if not lines or part.first > len(lines):
        page.line("(its source was not recorded)", style="dim")
        return
    previous = part.first - 1
    for number in _shown(part, len(lines), notes, whole=verbose > 0):
        if number != previous + 1:
            page.line("       ...", style="dim", indent=0)
        page.styled(
            Text(f"  {number:5} | ", style="dim").append(lines[number - 1], style="not dim"), indent=0
        )
        for note in notes.get(number, ()):
            style = (
                "yellow"
                if note.startswith("graph break")
                else "red"
                if note.startswith("failed")
                else "green"
            )
            page.styled(Text("        |", style="dim").append(f"   ^ {clean(note)}", style=style), indent=0)
        previous = number


def _shown(part: _Part, length: int, notes: dict[int, list[str]], *, whole: bool) -> Iterator[int]:
    last = min(part.last, length)
    if whole or last - part.first < WHOLE:
        yield from range(part.first, last + 1)
        return
    near = {n for line in notes for n in range(line - AROUND, line + AROUND + 1)}
    yield from sorted(n for n in near | {part.first} if part.first <= n <= last)
