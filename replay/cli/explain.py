"""The verb `explain`: what the compiler makes of the recorded frame."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from replay.cli import exits, progress
from replay.cli.replay import gather, with_options
from replay.cli.values import bundle_path

UNUSED = ("pdb", "trust", "quiet", "artifacts", "compare", "tolerance", "verbose", "as_json")
"""Options of a replay that have no meaning here, or another one."""


@click.command("explain")
@click.argument("path", metavar="BUNDLE", type=bundle_path)
@with_options(without=UNUSED)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
@click.option("-v", "--verbose", count=True, help="Every input, guard and inlined function.")
def command(path: Path, as_json: bool, verbose: int, **options: Any) -> int:
    """Show what the compiler makes of the frame: graphs, graph breaks, guards, inlined functions.

    Exit codes: 0 explained (whatever the frame's own outcome), 2 nothing was replayed, 125 missing.
    """
    from replay.bundle import load

    bundle = load(path)
    isolate = options.pop("isolate") is not False
    from replay.explanation import explain

    what = f"explaining {bundle.manifest.frame.function}"
    with progress.shown(what), redirect_stdout(sys.stderr):
        explained = explain(bundle, isolate=isolate, **gather(options))
    if as_json:
        from replay.report.plain import explanation_json

        exits.emit(explanation_json(explained))
    else:
        from replay.report.explanation import draw_explanation

        exits.write_result(lambda stream: draw_explanation(explained, stream, verbose=verbose))
    return exits.STATUS_CODES["missing"] if explained.outcome.status == "missing" else 0
