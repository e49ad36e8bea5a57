"""Remedies of recompilations, for people: what to write, and what the sequence came to before and with it."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping
from typing import Any

from replay.findings.recompiles import Count, Recompiles, Remedy
from replay.report.page import Page
from replay.report.text import count, show_seconds

SHOWN = 5
"""Remedies that are told whole, unless all are asked for."""


def draw_remedies(page: Page, found: Recompiles, *, verbose: int = 0) -> None:
    """Write the remedies that help, best first. Nothing where none was tried."""
    if not found.tried:
        return
    how_many = len(found.remedies)
    page.heading(
        "Remedies",
        f"{found.tried} tried by replaying the calls, side by side; {how_many or 'none'} {_help(how_many)}",
    )
    shown = found.remedies if verbose else found.remedies[:SHOWN]
    for number, one in enumerate(shown, start=1):
        _draw(page, found, number, one)
    if len(shown) < how_many:
        page.line(f"... {how_many - len(shown)} more (-v shows them)", style="dim")


def _help(number: int) -> str:
    return "helps" if number == 1 else "help"


def _draw(page: Page, found: Recompiles, number: int, one: Remedy) -> None:
    page.line(f"{number}. {one.name}", style="bold")
    for line in one.change.splitlines():
        for part in _wrapped(line, page.width - 5):
            page.line(part, style="green", indent=5)
    rows = [("   measured", difference(one)), ("   results", _RESULTS[one.same])]
    rows += [("   but", one.caveat)] if one.caveat else []
    rows += [("   replay", command_line(found.bundle, one.options))] if one.options else []
    page.pairs(rows)


def _wrapped(line: str, width: int) -> list[str]:
    """A comment in lines of its own; code stays whole."""
    if not line.startswith("#"):
        return [line]
    return textwrap.wrap(line, width, subsequent_indent="# ", break_long_words=False)


_RESULTS: Mapping[bool | None, str] = {
    True: "each call gives, and writes, what the uncompiled function does",
    False: "not what the uncompiled function gives",
    None: "not compared",
}


def difference(one: Remedy) -> str:
    """`8 compiles, 31.0 s -> 2 compiles, 9.00 s; uncompiled: 3 -> 0`; what is 0 before and after is left out."""
    before, after = one.before, one.after
    words = [f"{_compiling(before)} -> {_compiling(after)}"]
    pairs = (("uncompiled", before.uncompiled, after.uncompiled), ("errors", before.errors, after.errors))
    words += [f"{name}: {was} -> {now}" for name, was, now in pairs if was or now]
    return "; ".join(words)


def _compiling(number: Count) -> str:
    return f"{count(number.compiles, 'compile')}, {show_seconds(number.seconds)}"


def command_line(bundle: str, options: Mapping[str, Any]) -> str:
    """The replay that shows it."""
    words = ["python", "-m", "replay", bundle]
    for name, value in options.items():
        words += _words(f"--{name.replace('_', '-')}", value)
    return shlex.join(words)


def _words(option: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [option if value else option.replace("--", "--no-", 1)]
    if isinstance(value, Mapping):
        return [word for key, item in value.items() for word in (option, f"{key}={_plain(item)}")]
    if option == "--without":
        return [option, ",".join(value)]
    if isinstance(value, (list, tuple)):
        return [word for item in value for word in (option, str(item))]
    return [option, str(value)]


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
