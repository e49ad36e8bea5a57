"""The verb `source`: the text of the user's files in a bundle. Runs no code from it and imports no torch."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from replay.cli import exits
from replay.cli.values import bundle_path
from replay.errors import MissingError, UsageError

if TYPE_CHECKING:
    from replay.bundle import Bundle


@click.command("source")
@click.argument("path", metavar="BUNDLE", type=bundle_path)
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--list", "as_list", is_flag=True, help="List the files instead.")
@click.option("--json", "as_json", is_flag=True, help="Print names and texts as one JSON object.")
def command(path: Path, file: str | None, as_list: bool, as_json: bool) -> int:
    """Print the text of a file that travels in the bundle: the frame's own, or FILE.

    FILE is a name that --list shows, or the end of one. Control characters come out escaped. Runs no code from the
    bundle and imports no torch.
    """
    from replay.bundle import load

    with load(path) as bundle:
        files = _chosen(bundle, file)
        if as_json:
            from replay.plain import to_json

            exits.emit(to_json({"bundle": str(path), "sources": [_plain(bundle, one) for one in files]}))
        elif as_list:
            _list(bundle)
        else:
            from replay.report.sources import draw_source

            text = bundle.source_for(_one(bundle, file, files)) or ""
            exits.write_result(lambda stream: draw_source(text, stream))
    return 0


def _chosen(bundle: Bundle, file: str | None) -> list[str]:
    """The files that FILE may mean: all of them without one."""
    sources = bundle.manifest.sources
    if file is None:
        return list(sources)
    exact = [name for name, entry in sources.items() if file in (name, entry)]
    return exact or [name for name in sources if _ends_with(name, file)]


def _ends_with(name: str, wanted: str) -> bool:
    parts, end = PurePosixPath(name.replace("\\", "/")).parts, PurePosixPath(wanted.replace("\\", "/")).parts
    return bool(end) and parts[-len(end) :] == end


def _one(bundle: Bundle, file: str | None, files: list[str]) -> str:
    if not bundle.manifest.sources:
        raise MissingError(f"{bundle.path}: the bundle has no sources")
    if file is None:
        own = bundle.manifest.frame.file
        if own in bundle.manifest.sources:
            return own
        raise UsageError(
            f"{bundle.path}: the frame's own text was not recorded; name a file that --list shows"
        )
    if len(files) == 1:
        return files[0]
    known = ", ".join(files or bundle.manifest.sources)
    problem = "means several files" if files else "is not in the bundle"
    raise UsageError(f"{file!r} {problem}; there are: {known[:500]}")


def _list(bundle: Bundle) -> None:
    from replay.report.sources import SourceRow, draw_source_list

    rows = []
    for name, entry in bundle.manifest.sources.items():
        text, size = bundle.source(entry), bundle.manifest.entries[entry].size
        rows.append(SourceRow(name, entry, len(text.splitlines()), size, name == bundle.manifest.frame.file))
    exits.write_result(lambda stream: draw_source_list(bundle.path, rows, stream))


def _plain(bundle: Bundle, name: str) -> dict[str, str]:
    entry = bundle.manifest.sources[name]
    return {"file": name, "entry": entry, "text": bundle.source(entry)}
