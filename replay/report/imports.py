"""What loading a bundle's values would import and call, for people: what the writer would not write comes first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from replay.findings.imports import Alarm, Code, Imported, Imports
from replay.report.page import Page
from replay.report.text import count, shorten, show_size

ROWS = 30
LONGEST = 160

_GROUPS: Mapping[str, tuple[str, str]] = {
    "other": ("Other packages", "imported by name; they must be installed where it is replayed"),
    "standard library": ("Standard library", ""),
    "torch": ("torch", ""),
    "user": ("The user's", "found in what travels in the bundle"),
    "replay": ("replay's own builders", "they make the recorded objects again"),
}


def draw_imports(found: Imports, stream: TextIO) -> None:
    """Write the whole report to the stream."""
    page = Page(stream)
    if found.size is None:
        page.heading(found.bundle, "the bundle has no values: nothing is loaded")
        return
    size = show_size(found.size)
    page.heading(found.bundle, f"what loading values.pkl ({size}) would import and call")
    page.line("read from the pickle's opcodes; nothing of it was run", style="dim")
    _draw_alarms(page, found)
    for group, (title, detail) in _GROUPS.items():
        _draw_group(page, title, detail, [one for one in found.names if one.group == group])
    _draw_code(page, found.code)
    if found.more:
        page.gap()
        page.line(f"... {found.more} more are not listed", style="bold red")


def _draw_alarms(page: Page, found: Imports) -> None:
    if found.unread:
        page.heading("Not read to its end")
        page.line(found.unread, style="bold red")
        page.line("what follows is not known, and loading may run it")
    if not found.alarms:
        if not found.unread:
            page.heading("Nothing unusual", "every call is one that replay's writer writes")
        return
    page.heading("Not written by replay", "do not replay this bundle unless you know why this is in it")
    for one in found.alarms[:ROWS]:
        page.line(_show_alarm(one), style="bold red")
    if len(found.alarms) > ROWS:
        page.line(f"... {len(found.alarms) - ROWS} more (--json has all)", style="dim")


def _show_alarm(alarm: Alarm) -> str:
    return f"{shorten(alarm.what, LONGEST)}: {alarm.why} (byte {alarm.position})"


def _draw_group(page: Page, title: str, detail: str, names: list[Imported]) -> None:
    if not names:
        return
    page.heading(title, detail or count(len(names), "name"))
    ordered = sorted(names, key=lambda one: (not one.power, one.full_name))
    rows = [(shorten(one.full_name, LONGEST), _show_calls(one), one.power) for one in ordered[:ROWS]]
    powers = any(power for *_, power in rows)
    page.table(("name", "called", "can")[: 3 if powers else 2], [row[: 3 if powers else 2] for row in rows])
    if len(ordered) > ROWS:
        page.line(f"... {len(ordered) - ROWS} more (--json has all)", style="dim")


def _show_calls(one: Imported) -> str:
    if not one.name:
        return "imported"
    return "" if not one.called else "once" if one.called == 1 else f"{one.called} times"


def _draw_code(page: Page, code: tuple[Code, ...]) -> None:
    """The functions that travel; a replay runs those that the frame uses."""
    if not code:
        return
    page.heading("The user's functions", "a replay runs those that the frame calls")
    for one in code[:ROWS]:
        names = shorten(", ".join(one.functions), LONGEST)
        if one.kind == "source":
            page.line(f"{shorten(one.file, LONGEST)}: {names}")
        else:
            page.line(f"bytecode, which cannot be read here: {names}", style="bold")
    if len(code) > ROWS:
        page.line(f"... {count(len(code) - ROWS, 'more file')} (--json has all)", style="dim")
