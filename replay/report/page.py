"""A page: headings, lines, name-and-value pairs and tables on one console. Knows nothing of bundles.

Every string is cleaned here on its way out, so that no caller can forget it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from replay.report import console as consoles
from replay.report.text import clean, clean_line

INDENT = 2


class Page:
    """Draws on a stream, top to bottom. `colour` says whether a reader sees styles."""

    def __init__(self, stream: TextIO) -> None:
        self._console = consoles.open_console(stream)
        self._empty = True
        self.colour = self._console.is_terminal and self._console.color_system is not None
        self.width = self._console.width

    def heading(self, title: str, detail: str = "") -> None:
        """A title in bold and, beside it, what belongs on the same line; a blank line goes before it."""
        if not self._empty:
            self.gap()
        line = Text().append(clean_line(title), style="bold")
        self._put(line.append("  " + clean_line(detail)) if detail else line)

    def line(self, text: str, *, style: str = "", indent: int = INDENT) -> None:
        """One line or several. Never wrapped: a long one stays whole in a pipe, and a terminal breaks it."""
        for part in clean(text).split("\n"):
            self.styled(Text(part, style=style), indent=indent)

    def styled(self, text: Text, *, indent: int = INDENT) -> None:
        """One line that is clean already and has its styles."""
        line = Text(" " * indent).append_text(text)
        line.rstrip()
        self._put(line)

    def gap(self) -> None:
        """A blank line."""
        self._put(Text())

    def pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Names in one column, values wrapped in another."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in rows:
            grid.add_row(Text(clean_line(name)), Text(clean(value)))
        if grid.row_count:
            self._put_block(grid)

    def table(
        self, titles: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
    ) -> None:
        """Rows under titles; the columns whose positions are in `right` hold numbers."""
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
        for position, title in enumerate(titles):
            table.add_column(title, overflow="fold", justify="right" if position in right else "left")
        for row in rows:
            table.add_row(*(Text(clean_line(cell)) for cell in row))
        if table.row_count:
            self._put_block(table)

    def _put(self, text: Text) -> None:
        self._empty = False
        self._console.print(text, soft_wrap=True)

    def _put_block(self, block: Table) -> None:
        self._empty = False
        # Rich fills each line with blanks up to the width; nobody wants them in a pipe or a clipboard.
        with self._console.capture() as captured:
            self._console.print(Padding(block, (0, 0, 0, INDENT)))
        for line in captured.get().splitlines():
            self._console.file.write(line.rstrip() + "\n")
