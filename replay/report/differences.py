"""In what two bundles differ, for people: what the manifests say by section, then the texts."""

from __future__ import annotations

from typing import TextIO, get_args

from rich.text import Text

from replay.findings.differences import Changed, Differences, Section, TextChange
from replay.report.page import Page
from replay.report.text import clean_line, count, show_value

ROWS = 40
LINES = 200
WIDTH = 60


def draw_differences(found: Differences, stream: TextIO) -> None:
    """Write the whole report to the stream."""
    page = Page(stream)
    page.line(f"- {found.first}", indent=0, style="red")
    page.line(f"+ {found.second}", indent=0, style="green")
    if found.same:
        page.line("the same, but for what differs from run to run of one program", indent=0)
        return
    for section in get_args(Section):
        rows = [change for change in found.changes if change.section == section]
        if rows:
            _draw_section(page, section, rows)
    for one in found.texts:
        _draw_text(page, one)


def _draw_section(page: Page, section: str, rows: list[Changed]) -> None:
    page.heading(section.capitalize(), count(len(rows), "difference"))
    for change in rows[:ROWS]:
        page.line(change.name, style="bold")
        if change.only != "second":
            page.styled(Text(f"- {_show(change.first)}", style="red"), indent=4)
        if change.only != "first":
            page.styled(Text(f"+ {_show(change.second)}", style="green"), indent=4)
    if len(rows) > ROWS:
        page.line(f"... {len(rows) - ROWS} more (--json has all)", style="dim")


def _show(value: object) -> str:
    if isinstance(value, str):
        first, _, rest = value.partition("\n")
        more = f" (and {count(rest.count(chr(10)) + 1, 'more line')})" if rest.strip() else ""
        return clean_line(first) + more
    return show_value(value, 200)


def _draw_text(page: Page, change: TextChange) -> None:
    if change.only:
        page.heading("Source", f"{change.file}: only in the {change.only} bundle")
        return
    page.heading("Source", change.file)
    if not change.lines:
        page.line("the texts differ in too many lines to be compared")
    for line in change.lines[:LINES]:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        page.line(line, style=style)
    if len(change.lines) > LINES:
        page.line(f"... {len(change.lines) - LINES} more lines (--json has all)", style="dim")
