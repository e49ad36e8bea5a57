"""The verb `issue`: a bug report for PyTorch, made of a bundle."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from replay.cli import exits, progress
from replay.cli.trusting import settle_trust, with_trust
from replay.cli.values import at_least_one, bundle_path, seconds


@click.command("issue")
@click.argument("path", metavar="BUNDLE", type=bundle_path)
@click.option("-o", "--output", type=Path, metavar="FILE", help="Write it there.  [default: standard output]")
@click.option("--triage/--no-triage", default=True, help="The ablation by backend.  [default: --triage]")
@click.option(
    "--export/--no-export",
    default=True,
    help="A reproducer without replay, if one can be verified.  [default: --export]",
)
@click.option(
    "--attach/--no-attach",
    default=None,
    help="Copy the bundle beside it as NAME.rec.zip.  [default: with -o]",
)
@click.option("--force", is_flag=True, help="Over files that exist.")
@click.option("--jobs", type=at_least_one, metavar="N", help="Replays of the triage at a time.")
@click.option(
    "--timeout",
    type=seconds,
    metavar="SECONDS",
    default=1800.0,
    show_default="1800",
    help="Stop a child process after this; 0: never.",
)
@with_trust
@click.option("--json", "as_json", is_flag=True, help="Print text, title and findings as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing where all went well.")
def command(
    path: Path,
    *,
    output: Path | None,
    triage: bool,
    export: bool,
    attach: bool | None,
    force: bool,
    jobs: int | None,
    timeout: float,
    trust: bool,
    sandbox: bool | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Write the Markdown that PyTorch's form for torch.compile bugs asks for. Nothing is sent.

    Read it before you send it: it shows lines of the program, and the attached bundle holds its files.

    Exit codes: 0 written or printed; 2 nothing was: unreadable bundle, a file in the way.
    """
    from replay.bundle import load

    with load(path) as bundle:
        from replay.filing import issue

        vouched: dict[str, bool | None] = {}
        if triage or export:  # else nothing of it is run
            vouched = settle_trust(bundle, trust=trust, sandbox=sandbox)
        what = f"issue of {bundle.manifest.frame.function}"
        with progress.told(what, enabled=not quiet) as tell, redirect_stdout(sys.stderr):
            made = issue(
                bundle,
                output,
                triage=triage,
                export=export,
                attach=attach,
                force=force,
                timeout=timeout,
                jobs=jobs,
                heard=lambda now: tell(f"{what}: {now}"),
                **vouched,
            )
    if as_json:
        from replay.report.plain import issue_json

        exits.emit(issue_json(made))
    elif output is None:
        exits.write_text(made.text)
    for note in made.notes:
        exits.say(note)
    if not quiet:
        exits.say(f"title: {made.title}")
        for written in (made.path, made.attachment.path):
            if written:
                exits.say(f"wrote {written}")
    return 0
