"""The texts that a bundle holds: a list of them, or one of them. Nothing here finds a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from replay.report.page import Page
from replay.report.text import clean, count, show_size


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One source, as a row."""

    file: str
    entry: str
    lines: int
    size: int  # bytes
    frame: bool  # the recorded frame's own


def draw_source_list(path: str, rows: Sequence[SourceRow], stream: TextIO) -> None:
    """Write one row for each source."""
    page = Page(stream)
    page.heading(path, count(len(rows), "source"))
    shown = [
        (show_size(row.size), str(row.lines), row.file, "the frame's" if row.frame else "") for row in rows
    ]
    page.table(("size", "lines", "file", ""), shown, right=(0, 1))


def draw_source(text: str, stream: TextIO) -> None:
    """Write the text: highlighted on a terminal, elsewhere as it is.

    Control characters other than tabs and newlines come out escaped.
    """
    page = Page(stream)
    if page.colour:
        from rich.syntax import Syntax  # brings pygments along: only for a reader who sees colours

        syntax = Syntax("", "python", theme="ansi_dark", background_color="default")
        for line in syntax.highlight(clean(text).removesuffix("\n")).split("\n", allow_blank=True):
            page.styled(line, indent=0)
        return
    shown = "\t".join(clean(part) for part in text.split("\t"))
    stream.write(shown if shown.endswith("\n") else shown + "\n")
