"""What leaves the machine with a bundle, for people: what looks like a secret first, then all of it by kind."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TextIO

from replay.findings.privacy import Kind, Leaving, Privacy
from replay.report.page import Page
from replay.report.text import clean_line, shorten, show_size

ROWS = 8
SECRETS = 20
WIDTH = 60
WHERE = 24

TITLES: Mapping[Kind, str] = {
    "sources": "Sources",
    "tensors": "Tensors",
    "values": "Values",
    "error": "Error",
    "inputs": "Inputs",
    "paths": "Paths",
    "people": "People and machines",
    "variables": "Environment variables",
    "settings": "Config and state",
    "packages": "Packages",
    "machine": "Machine",
}


def draw_privacy(found: Privacy, stream: TextIO, *, advise: bool = True) -> None:
    """Write the whole report to the stream. `advise`: name the command that removes what can be removed."""
    page = Page(stream)
    page.heading(found.bundle, f"{show_size(found.size)}; what leaves the machine with it")
    draw_secrets(page, found)
    for one in found.leaving:
        _draw_kind(page, one)
    for reason in found.unread:
        page.heading("Not read", reason)
    if advise:
        page.heading("Send less of it")
        page.line(f"python -m replay strip {shlex.quote(found.bundle)}")
        if found.secrets:
            page.line("a key that the program's text holds stays there: take it out, and record again")


def draw_secrets(page: Page, found: Privacy) -> None:
    """What looks like a secret, masked, and where it stands."""
    by = (
        f"by {found.detector}"
        if found.detector
        else "by well-known forms alone: detect-secrets is not installed"
    )
    if not found.secrets:
        page.heading("No secret was found", f"{by}; that is no promise")
        return
    page.heading("What looks like a secret", by)
    rows = [(one.kind, one.shown, _end_of(one.where)) for one in found.secrets[:SECRETS]]
    page.table(("kind", "begins with", "where"), rows)
    hidden = len(found.secrets) - SECRETS + found.more
    if hidden > 0:
        page.line(f"... {hidden} more" + ("" if found.more else " (--json has all)"), style="dim")


def _end_of(where: str) -> str:
    line = clean_line(where)
    return line if len(line) <= WHERE else "..." + line[-WHERE + 3 :]


def _draw_kind(page: Page, one: Leaving) -> None:
    page.heading(TITLES[one.kind], f"{show_size(one.size)}: {one.summary}")
    rows = [
        (show_size(item.size), shorten(item.name, WIDTH), shorten(item.detail, WIDTH))
        for item in one.items[:ROWS]
    ]
    page.table(("size", "what", ""), rows, right=(0,))
    hidden = len(one.items) - ROWS + one.more
    if hidden > 0:
        page.line(f"... {hidden} more" + ("" if one.more else " (--json has all)"), style="dim")
