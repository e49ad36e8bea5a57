"""The verb `export`: one runnable Python file of a bundle, without `replay`."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from replay.cli import exits, progress
from replay.cli.trusting import settle_trust, with_trust
from replay.cli.values import bundle_path, seconds
from replay.errors import UsageError


@click.command("export")
@click.argument("path", metavar="BUNDLE", type=bundle_path)
@click.option("-o", "--output", type=Path, metavar="FILE", help="Write it there.  [default: standard output]")
@click.option("--notebook", is_flag=True, help="An .ipynb in place of a .py.")
@click.option(
    "--unverified", is_flag=True, help="Also one that does not fail as recorded; it says so itself."
)
@click.option("--force", is_flag=True, help="Over a file that exists.")
@click.option(
    "--timeout",
    type=seconds,
    metavar="SECONDS",
    default=1800.0,
    show_default="1800",
    help="Stop a child process after this; 0: never.",
)
@with_trust
@click.option("--json", "as_json", is_flag=True, help="Print what came of it as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing where all went well.")
def command(
    path: Path,
    *,
    output: Path | None,
    notebook: bool,
    unverified: bool,
    force: bool,
    timeout: float,
    trust: bool,
    sandbox: bool | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Make one readable Python file of the frame, which runs without `replay`, and check that it fails as recorded.

    The file is run in a clean process. It is "verified" if its failure has the recorded fingerprint; another is
    written only with --unverified, and its first lines say so.

    Exit codes: 0 written or printed; 2 nothing was: it cannot be exported or verified, and the message says why.
    """
    from replay.bundle import load

    with load(path) as bundle:
        from replay.exporting import export

        vouched = settle_trust(bundle, trust=trust, sandbox=sandbox)
        what = f"export of {bundle.manifest.frame.function}"
        with progress.told(what, enabled=not quiet) as tell, redirect_stdout(sys.stderr):
            made = export(
                bundle,
                output,
                notebook=notebook,
                unverified=unverified,
                force=force,
                timeout=timeout,
                heard=lambda now: tell(f"{what}: {now}"),
                trust=vouched["trust"],
                sandbox=vouched["sandbox"],
            )
    if not made.verified and not unverified:
        raise UsageError(
            f"{path}: not verified: {made.check.reason}; add --unverified to have the file all the same"
        )
    from replay.contents.secrets import kinds_in

    if kinds := kinds_in(made.text):
        exits.say(
            f"the file holds what looks like a secret ({', '.join(kinds)}): take it out before you send it"
        )
    if as_json:
        from replay.report.plain import export_json

        exits.emit(export_json(made))
    elif output is None:
        exits.write_text(made.text)
    elif not quiet:
        exits.say(
            f"wrote {output}, " + ("verified" if made.verified else f"not verified: {made.check.reason}")
        )
    return 0
