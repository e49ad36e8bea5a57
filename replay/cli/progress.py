"""What a person sees while a replay takes its time: one line on a terminal's stderr. Silent in a pipe."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from replay.report.text import clean_line

PATIENCE = 2.0  # seconds before anything shows
PERIOD = 0.5


@contextmanager
def shown(what: str | Callable[[], str], *, enabled: bool = True) -> Iterator[None]:
    """Show `what ... 12 s` while the block runs, if it takes long and stderr is a terminal; then wipe it.

    `what`: a function where it changes while the block runs; it is called in another thread.
    """
    if not enabled or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_tick, args=(what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def told(first: str, *, enabled: bool = True) -> Iterator[Callable[[str], None]]:
    """As `shown`; the block gets a function to say what goes on now, if it is no longer `first`."""
    state = [first]

    def tell(text: str) -> None:
        state[0] = text

    with shown(lambda: state[0], enabled=enabled):
        yield tell


def _tick(what: str | Callable[[], str], done: threading.Event) -> None:
    begun, stream = time.monotonic(), sys.stderr
    if done.wait(PATIENCE):
        return
    while True:
        text = clean_line(what if isinstance(what, str) else what())
        stream.write(f"\r\x1b[K{text} ... {time.monotonic() - begun:.0f} s")
        stream.flush()
        if done.wait(PERIOD):
            break
    stream.write("\r\x1b[K")
    stream.flush()
