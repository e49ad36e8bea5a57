"""Who vouches for a bundle, the summary ahead of the question, and the trusted directories, for people."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from replay.findings.imports import Imports
from replay.report.page import Page
from replay.report.text import count, headline, shorten, show_size

if TYPE_CHECKING:
    from replay.report.inspection import Inspectable
    from replay.trust import Place, Standing

ALARMS = 5
NAMES = 160
"""Characters of the list of packages."""


def describe_standing(standing: Standing) -> str:
    """One line: who vouches for the bundle, and so what a replay does."""
    if standing.trusted:
        return f"{standing.said}: it is replayed at once"
    return f"{standing.said}: it is replayed in a sandbox, or with --trust"


def draw_standing(page: Page, standing: Standing) -> None:
    """The line of an inspection, and what is wrong with the key or the list of directories."""
    page.line(describe_standing(standing))
    for note in standing.notes:
        page.line(note, style="bold red")


def draw_request(
    bundle: Inspectable, standing: Standing, imports: Imports, stream: TextIO, *, lacking: str
) -> None:
    """What a person should know before saying that the bundle may run."""
    page = Page(stream)
    page.heading("Nobody vouches for this bundle", bundle.path)
    page.pairs(_rows(bundle, standing, imports))
    for note in standing.notes:
        page.line(note, style="bold red")
    if imports.alarms:
        page.gap()
        page.line("Its values do what replay does not write:", style="bold red")
        for one in imports.alarms[:ALARMS]:
            page.line(f"{shorten(one.what, NAMES)}: {one.why}", style="bold red", indent=4)
        if len(imports.alarms) > ALARMS:
            page.line(f"... {len(imports.alarms) - ALARMS} more", indent=4)
    if imports.unread:
        page.line(f"Its values could not be read to their end: {imports.unread}", style="bold red")
    page.gap()
    page.line(f"A replay runs its code, and there is no sandbox: {lacking}.")
    page.line(
        f"Nothing of it has run yet. To look first: python -m replay inspect {shlex.quote(bundle.path)}"
    )
    page.gap()


def _rows(bundle: Inspectable, standing: Standing, imports: Imports) -> list[tuple[str, str]]:
    manifest = bundle.manifest
    failure = "" if manifest.error is None else f": {headline(manifest.error.message)}"
    what = manifest.event if manifest.error is None else manifest.error.type
    return [
        ("who", standing.said),
        ("says it was made", f"{manifest.created} by {manifest.writer}"),
        ("says it is", shorten(f"{what} in {manifest.frame.function}{failure}", 300)),
        ("its file", f"{manifest.frame.file}:{manifest.frame.first_line}"),
        ("size", show_size(bundle.size)),
        ("imports", _packages(imports)),
        ("brings code", _code(imports)),
    ]


def _packages(imports: Imports) -> str:
    """The top packages of all names, without replay's own builders."""
    if imports.size is None:
        return "nothing: it has no values"
    tops = dict.fromkeys(one.module.partition(".")[0] for one in imports.names if one.group != "replay")
    return shorten(", ".join(sorted(tops)), NAMES) or "nothing"


def _code(imports: Imports) -> str:
    functions = sum(len(one.functions) for one in imports.code)
    hidden = any(one.kind == "bytecode" for one in imports.code)
    return f"{count(functions, 'function')}{', some as bytecode that cannot be read here' if hidden else ''}"


def draw_places(places: Sequence[Place], stream: TextIO) -> None:
    """The trusted directories, one in a line."""
    page = Page(stream)
    for one in places:
        page.line(f"{one.path}{'' if one.there else '  (not there now)'}", indent=0)
