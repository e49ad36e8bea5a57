"""The backends that there are, for people: one line each, by group. Knows no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from replay.findings.backends import BackendInfo
from replay.report.page import Page

COLUMN = 26
"""Characters of a name; what a longer one does is told right behind it, so that a line stays within 80."""

TITLES = {
    "compilers": ("Compilers", ""),
    "debugging": ("Debugging", "which part of torch.compile fails"),
    "testing only": ("Testing only", "they fail on purpose"),
    "others": ("Others", "registered by packages that are installed here"),
}


def draw_backends(found: Sequence[BackendInfo], stream: TextIO) -> None:
    """Write the list."""
    page = Page(stream)
    for group, (title, detail) in TITLES.items():
        rows = [
            (one.name, f"{one.words}{f' ({one.lacks})' if one.lacks else ''}")
            for one in found
            if one.group == group
        ]
        if rows:
            page.heading(title, detail)
            for name, words in rows:
                page.line(f"{name:<{COLUMN}}  {words}")
    page.gap()
    page.line("A function of yours, of a graph and its inputs: --backend module:function", indent=0)
