"""What went from a bundle, whether its failure survived, and what is left, for people."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TextIO

from replay.findings.stripping import Stripped, Survival
from replay.report.page import Page
from replay.report.privacy import draw_secrets
from replay.report.text import show_size

_WORDS: Mapping[Survival, tuple[str, str]] = {
    "survived": ("The failure survived", "bold green"),
    "lost": ("The failure did not survive", "bold red"),
    "unknown": ("Not known whether the failure survived", "bold yellow"),
    "unchecked": ("Not checked whether the failure survived", "bold yellow"),
}


def draw_stripped(found: Stripped, stream: TextIO) -> None:
    """Write the whole report to the stream."""
    page = Page(stream)
    page.heading(
        found.bundle, f"{show_size(found.size)}; {found.original} has {show_size(found.original_size)}"
    )
    _draw_survival(page, found)
    page.heading("Removed")
    for line in found.removed or ("nothing",):
        page.line(line)
    if found.kept:
        page.heading("Not removed", "although it was to go")
        for line in found.kept:
            page.line(line, style="bold red")
    draw_secrets(page, found.left)
    page.heading("Still leaves the machine")
    page.pairs((one.kind, f"{show_size(one.size)}: {one.summary}") for one in found.left.leaving)
    page.gap()
    page.line(f"all of it: python -m replay inspect --privacy {shlex.quote(found.bundle)}", style="dim")


def _draw_survival(page: Page, found: Stripped) -> None:
    words, style = _WORDS[found.survival]
    page.line(words, style=style)
    if found.reason:
        page.line(found.reason)
    path = shlex.quote(found.original)
    if found.survival == "lost":
        page.line("keep the file only to be looked at; or keep more, in another file:")
        page.line(f"python -m replay strip {path} -o OTHER.rec ...", indent=6)
        page.line("with --values none, with --keep-comments --keep-names, or with fewer", indent=6)
        page.line("--drop-global", indent=6)
    if found.survival == "unchecked":
        page.line(f"python -m replay {shlex.quote(found.bundle)}   shows whether it did", style="dim")
