"""Where a report is drawn: width and colour of a stream. No report's content lives here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 80
MIN_WIDTH = 40


def open_console(stream: TextIO) -> Console:
    """A console on the stream that takes every string literally: no markup, emoji or guessed highlights.

    On a terminal: its width, and colour unless NO_COLOR is set. Elsewhere: no escapes, 80 columns or COLUMNS.
    """
    from rich.console import Console

    class Literal(Console):
        """rich ends the process with code 1 when the reader goes away; which code that is, is not its business."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    wide = stream.isatty() or os.environ.get("COLUMNS", "").isdigit()
    console = Literal(
        file=stream,
        width=None if wide else PIPE_WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )
    console.width = max(console.width, MIN_WIDTH)
    return console
