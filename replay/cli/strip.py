"""The verb `strip`: a bundle once more with less of a person's in it."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from replay.cli import exits, progress
from replay.cli.trusting import settle_trust, with_trust
from replay.cli.values import bundle_path, names, seconds

CODES = {"survived": 0, "unchecked": 0, "lost": 3, "unknown": exits.STATUS_CODES["missing"]}


@click.command("strip")
@click.argument("path", metavar="BUNDLE", type=bundle_path)
@click.option(
    "-o", "out", metavar="FILE", help="The new file; x.stripped.rec beside the old one if not given."
)
@click.option(
    "--values", metavar="all|none|NAME,...", default="all", help="Whose tensors' values become metadata."
)
@click.option("--keep-comments", is_flag=True, help="Keep comments and docstrings.")
@click.option("--keep-names", is_flag=True, help="Keep directories, user and host names, e-mail addresses.")
@click.option(
    "--environment",
    type=click.Choice(["minimal", "recorded"]),
    default="minimal",
    help="minimal: only variables that a replay sets; no platform, no processor.",
)
@click.option(
    "--drop-global", "drop_globals", multiple=True, metavar="NAME", help="Take a global out; repeatable."
)
@click.option("--drop-calls", is_flag=True, help="Take out the calls that compiled the frame before.")
@click.option("--no-check", is_flag=True, help="Do not replay, so that nothing of the bundle runs.")
@click.option("--force", is_flag=True, help="Write over FILE if it exists; never over the original.")
@click.option("--timeout", type=seconds, metavar="SECONDS", help="Of each replay.")
@with_trust
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
def command(path: Path, out: str | None, values: str, as_json: bool, **options: Any) -> int:
    """Write a bundle with metadata instead of values, without comments, with other names of paths and people.

    Then replay it, to show that the failure survived, and say what is left that could be private. The new file stays
    whatever the replay says. Exit codes: 0 survived or not checked, 2 nothing was written, 3 the failure did not
    survive, 125 not known: the original itself is not reproduced here.
    """
    from replay.bundle import load
    from replay.stripping import strip

    chosen = values if values in ("all", "none") else names(values)
    check = not options["no_check"]
    with load(path) as bundle:
        vouched = settle_trust(bundle, trust=options["trust"], sandbox=options["sandbox"]) if check else {}
        with progress.shown("stripping and replaying"), redirect_stdout(sys.stderr):
            found = strip(
                bundle,
                out,
                values=chosen,
                comments=not options["keep_comments"],
                names=not options["keep_names"],
                environment=options["environment"],
                drop_globals=options["drop_globals"],
                drop_calls=options["drop_calls"],
                check=check,
                force=options["force"],
                timeout=options["timeout"],
                trust=vouched.get("trust"),
                sandbox=vouched.get("sandbox"),
            )
    if as_json:
        from replay.report.plain import stripped_json

        exits.emit(stripped_json(found))
    else:
        from replay.report.stripping import draw_stripped

        exits.write_result(lambda stream: draw_stripped(found, stream))
    return CODES[found.survival]
