"""The verb `inspect`: what is inside a bundle. Runs no code from it and imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from replay.cli import exits, progress
from replay.cli.values import bundle_path
from replay.errors import UsageError

if TYPE_CHECKING:
    from replay.bundle import Bundle


@click.command("inspect")
@click.argument("path", metavar="BUNDLE", type=bundle_path)
@click.option("--imports", is_flag=True, help="What loading its values would import and call.")
@click.option("--privacy", is_flag=True, help="What leaves the machine with it; what looks like a secret.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
def command(path: Path, imports: bool, privacy: bool, as_json: bool) -> int:
    """Show what is inside a bundle: failure, source, inputs, config, environment.

    Runs no code from the bundle and imports no torch.
    """
    from replay.bundle import load
    from replay.trust import standing_of

    if imports and privacy:
        raise UsageError("--imports and --privacy are two reports; ask for one")
    bundle = load(path)
    standing = standing_of(bundle)
    if imports:
        _show_imports(bundle, as_json=as_json)
    elif privacy:
        _show_privacy(bundle, as_json=as_json)
    elif as_json:
        from replay.report.plain import manifest_json

        exits.emit(manifest_json(bundle.manifest, path=str(path), size=bundle.size, standing=standing))
    else:
        from replay.report.inspection import draw_inspection

        exits.write_result(lambda stream: draw_inspection(bundle, stream, standing=standing))
    return 0


def _show_imports(bundle: Bundle, *, as_json: bool) -> None:
    from replay.contents.imports import imports_of

    found = imports_of(bundle)
    if as_json:
        from replay.report.plain import imports_json

        exits.emit(imports_json(found))
    else:
        from replay.report.imports import draw_imports

        exits.write_result(lambda stream: draw_imports(found, stream))


def _show_privacy(bundle: Bundle, *, as_json: bool) -> None:
    from replay.contents.privacy import privacy_of

    with progress.shown("looking for secrets"):
        found = privacy_of(bundle)
    if as_json:
        from replay.report.plain import privacy_json

        exits.emit(privacy_json(found))
    else:
        from replay.report.privacy import draw_privacy

        exits.write_result(lambda stream: draw_privacy(found, stream))
