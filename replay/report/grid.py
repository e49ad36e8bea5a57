"""A sequence of calls under a grid of settings, for people: a table, and bars in the terminal. Decides nothing.

The picture as a file is drawn in `replay.report.chart`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from replay.findings.recompiles import Cell, Count
from replay.report.page import Page
from replay.report.text import count, show_seconds

BAR = 48
"""Letters of the longest bar. With no more calls than that, a letter is a call."""
LETTERS = {"compiles": "#", "hits": "=", "uncompiled": ".", "errors": "!"}
"""ASCII, and each another letter: a bar is read without colour, and in any encoding."""
STYLES = {"compiles": "bold red", "hits": "green", "uncompiled": "yellow", "errors": "bold magenta"}
WORDS = {
    "compiles": "compiled",
    "hits": "found compiled code",
    "uncompiled": "ran uncompiled",
    "errors": "raised",
}


def name_dynamic(dynamic: bool | None) -> str:
    """A setting as a reader would write it."""
    return "automatic" if dynamic is None else f"dynamic={dynamic}"


def draw_grid(page: Page, cells: Sequence[Cell], *, bars: bool = True) -> None:
    """The table and, below it, the bars; nothing where there are no cells."""
    for accumulated, part in by_accumulated(cells):
        _draw_table(page, accumulated, part)
        if bars:
            _draw_bars(page, part)


def by_accumulated(cells: Sequence[Cell]) -> Iterator[tuple[int | None, list[Cell]]]:
    """The cells of each accumulated limit."""
    for accumulated in dict.fromkeys(one.accumulated for one in cells):
        yield accumulated, [one for one in cells if one.accumulated == accumulated]


def limits(cells: Sequence[Cell]) -> list[int]:
    """The limits, ascending."""
    return sorted({one.limit for one in cells})


def columns(cells: Sequence[Cell]) -> dict[bool | None, dict[int, Cell]]:
    """The cells by `dynamic`, in their order, and by limit."""
    found: dict[bool | None, dict[int, Cell]] = {}
    for one in cells:
        found.setdefault(one.dynamic, {})[one.limit] = one
    return found


def parts(counted: Count) -> dict[str, int]:
    """What became of the calls, by the names of `LETTERS`; a call that compiled and then raised is in both."""
    return {name: getattr(counted, name) for name in LETTERS}


def _draw_table(page: Page, accumulated: int | None, cells: Sequence[Cell]) -> None:
    beside = "" if accumulated is None else f"accumulated limit {accumulated}"
    page.heading("Under other settings", beside)
    found = columns(cells)
    titles = ["limit"]
    for dynamic in found:
        titles += [name_dynamic(dynamic), ""]
    rows = [
        [str(limit), *(text for column in found.values() for text in _cell(column.get(limit)))]
        for limit in limits(cells)
    ]
    page.table(titles, rows, right=range(len(titles)))
    raised = any(one.count is not None and one.count.errors for one in cells)
    words = [word for name, word in WORDS.items() if name != "errors" or raised]
    page.line(f"{' / '.join(words)}; time spent compiling", style="dim")
    page.pairs(("refused", reason) for reason in dict.fromkeys(one.refused for one in cells if one.refused))


def _cell(cell: Cell | None) -> tuple[str, str]:
    if cell is None:
        return "-", ""
    if cell.count is None:
        return "refused", ""
    numbers = [cell.count.compiles, cell.count.hits, cell.count.uncompiled]
    numbers += [cell.count.errors] if cell.count.errors else []
    return " / ".join(map(str, numbers)), show_seconds(cell.count.seconds)


def _draw_bars(page: Page, cells: Sequence[Cell]) -> None:
    counted = [one.count for one in cells if one.count is not None]
    if not counted:
        return
    shown = [name for name in LETTERS if any(parts(one)[name] for one in counted)]
    page.heading("Calls by limit", ", ".join(f"{LETTERS[name]} {WORDS[name]}" for name in shown))
    most = max(sum(parts(one).values()) for one in counted)
    width = max(len(str(limit)) for limit in limits(cells))
    for dynamic, column in columns(cells).items():
        page.line(name_dynamic(dynamic))
        for limit, cell in sorted(column.items()):
            page.styled(Text(f"{limit:>{width}}  ").append_text(_bar(cell, most)), indent=4)
    if most > BAR:
        page.line(f"the longest bar is {count(most, 'call')}", style="dim")


def _bar(cell: Cell, most: int) -> Text:
    if cell.count is None:
        return Text("refused")
    text = Text()
    found = parts(cell.count)
    for name, letters in _lengths(found, most).items():
        text.append(LETTERS[name] * letters, style=STYLES[name])
    return text.append(f"  {found['compiles']}")


def _lengths(found: dict[str, int], most: int) -> dict[str, int]:
    """Letters of each part; what is there at all has one."""
    if most <= BAR:
        return found
    return {name: max(1, round(number * BAR / most)) if number else 0 for name, number in found.items()}
