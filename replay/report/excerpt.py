"""A few lines of source with one of them marked. Nothing here finds the file or the line."""

from __future__ import annotations

from rich.text import Text

from replay.report.page import Page
from replay.report.text import clean

CONTEXT = 4
WHOLE = 14


def draw_excerpt(page: Page, source: str, marked: int | None, *, first: int, last: int) -> None:
    """Draw lines `first` to `last` (1-based) of the source; of a long stretch only those around `marked`.

    A short function is shown whole. A long one keeps its first line, so that a reader sees which it is.
    Says so where the source is shorter than the line.
    """
    lines = clean(source).removesuffix("\n").split("\n")
    last = min(last, len(lines))
    if first > last or (marked is not None and marked > len(lines)):
        page.line(f"(the recorded text has {len(lines)} lines; line {marked or first} is not in it)")
        return
    shown = _choose(marked, first, last)
    drawn = _highlight(lines, shown) if page.colour else {number: Text(lines[number - 1]) for number in shown}
    previous = shown[0] - 1
    for number in shown:
        if number != previous + 1:
            page.line("       ...", style="dim", indent=0)
        page.styled(_gutter(number, marked).append_text(drawn[number]), indent=0)
        previous = number


def _choose(marked: int | None, first: int, last: int) -> list[int]:
    if last - first < WHOLE:
        return list(range(first, last + 1))
    if marked is None:
        return list(range(first, first + WHOLE))
    around = set(range(max(first, marked - CONTEXT), min(last, marked + CONTEXT) + 1))
    return sorted(around | {first})


def _gutter(number: int, marked: int | None) -> Text:
    if number == marked:
        return Text().append(f"> {number:5} | ", style="bold red")
    return Text().append(f"  {number:5} | ", style="dim")


def _highlight(lines: list[str], shown: list[int]) -> dict[int, Text]:
    from rich.syntax import Syntax  # brings pygments along: only for a reader who sees colours

    code = "\n".join(lines[number - 1] for number in shown)
    syntax = Syntax(code, "python", theme="ansi_dark", background_color="default")
    return dict(zip(shown, syntax.highlight(code).split("\n", allow_blank=True), strict=False))
