"""The verb `explain`: what the compiler makes of the recorded frame."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from replay.cli import exits, progress
from replay.cli.options import settle, with_options
from replay.cli.trusting import settle_trust
from replay.cli.values import bundle_path


@click.command("explain")
@click.argument("path", metavar="BUNDLE", type=bundle_path)
@with_options(without=("artifacts", "as_json", "compare", "pdb", "quiet", "tolerance", "verbose"))
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
@click.option("-v", "--verbose", count=True, help="Every input, guard and inlined function.")
def command(path: Path, as_json: bool, verbose: int, **options: Any) -> int:
    """Show what the compiler makes of the frame: graphs, graph breaks, guards, inlined functions.

    Exit codes: 0 explained (whatever the frame's own outcome), 2 nothing was replayed, 125 missing.
    """
    from replay.bundle import load

    bundle = load(path)
    from replay.explanation import explain

    given = settle(options)
    given |= settle_trust(bundle, trust=given["trust"], sandbox=given["sandbox"], isolate=given["isolate"])
    what = f"explaining {bundle.manifest.frame.function}"
    with progress.shown(what), redirect_stdout(sys.stderr):
        explained = explain(bundle, **given)
    if as_json:
        from replay.report.plain import explanation_json

        exits.emit(explanation_json(explained))
    else:
        from replay.report.explanation import draw_explanation

        exits.write_result(lambda stream: draw_explanation(explained, stream, verbose=verbose))
    return exits.STATUS_CODES["missing"] if explained.outcome.status == "missing" else 0
