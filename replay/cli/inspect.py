"""The verb `inspect`: what is inside a bundle. Runs no code from it and imports no torch."""

from __future__ import annotations

from pathlib import Path

import click

from replay.cli import exits
from replay.cli.values import bundle_path


@click.command("inspect")
@click.argument("path", metavar="BUNDLE", type=bundle_path)
@click.option("--json", "as_json", is_flag=True, help="Print the whole manifest as one JSON object.")
def command(path: Path, as_json: bool) -> int:
    """Show what is inside a bundle: failure, source, inputs, config, environment.

    Runs no code from the bundle and imports no torch.
    """
    from replay.bundle import load

    bundle = load(path)
    if as_json:
        from replay.report.plain import manifest_json

        exits.emit(manifest_json(bundle.manifest, path=str(path), size=bundle.size))
    else:
        from replay.report.inspection import draw_inspection

        exits.write_result(lambda stream: draw_inspection(bundle, stream))
    return 0
