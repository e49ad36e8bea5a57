"""The verb `diff`: in what two bundles differ. Runs no code from them and imports no torch."""

from __future__ import annotations

from pathlib import Path

import click

from replay.cli import exits
from replay.cli.values import bundle_path


@click.command("diff")
@click.argument("first", metavar="BUNDLE", type=bundle_path)
@click.argument("second", metavar="OTHER", type=bundle_path)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
def command(first: Path, second: Path, as_json: bool) -> int:
    """Show in what two bundles differ: frame, error, config, state, environment, inputs, sources.

    What differs from run to run does not count: dates, durations, the states of random generators. Runs no code from
    them and imports no torch.
    Exit codes: 0 the same, 1 they differ, 2 one of them cannot be read.
    """
    from replay.bundle import load
    from replay.contents.differences import differences

    with load(first) as one, load(second) as other:
        found = differences(one, other)
    if as_json:
        from replay.report.plain import differences_json

        exits.emit(differences_json(found))
    else:
        from replay.report.differences import draw_differences

        exits.write_result(lambda stream: draw_differences(found, stream))
    return 0 if found.same else 1
