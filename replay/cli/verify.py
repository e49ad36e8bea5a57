"""The verb `verify`: is every byte of a bundle what was recorded? Runs no code from it and imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from replay.cli import exits, progress
from replay.cli.values import find_bundles
from replay.errors import BundleError, UsageError


@click.command("verify")
@click.argument("paths", metavar="BUNDLE...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
def command(paths: tuple[str, ...], as_json: bool) -> int:
    """Check framing, sizes and every digest of bundles, blobs too; of a directory, of those in it.

    That shows damage, not who wrote a bundle. Runs no code from them and imports no torch.
    Exit codes: 0 all are whole, 2 one is not.
    """
    found = []
    for path in _expanded(paths):
        with progress.shown(f"checking {path}"):
            found.append(_check(path))
        if not as_json:
            exits.emit(_line(found[-1]))
    if as_json:
        from replay.plain import to_json

        exits.emit(to_json({"bundles": found}))
    return 0 if all(one["error"] is None for one in found) else exits.USAGE


def _expanded(paths: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for path in paths:
        if not Path(path).is_dir():
            found.append(path)
        elif inside := find_bundles(Path(path)):
            found += map(str, inside)
        else:
            raise UsageError(f"{path!r} is a directory without bundles; name one that has some")
    return found


def _check(path: str) -> dict[str, Any]:
    from replay.bundle import load

    try:
        with load(path) as bundle:
            bundle.verify()
            return {
                "bundle": path,
                "size": bundle.size,
                "entries": len(bundle.manifest.entries),
                "error": None,
            }
    except BundleError as error:
        return {"bundle": path, "size": None, "entries": None, "error": str(error)}


def _line(found: dict[str, Any]) -> str:
    from replay.report.text import clean_line, show_size

    if found["error"] is not None:
        return f"bad  {clean_line(found['error'])}"
    return f"ok   {clean_line(found['bundle'])}: {show_size(found['size'])}, {found['entries']} entries"
