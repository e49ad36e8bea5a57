"""The verb `triage`: the same frame under one backend after the other, and which of them is at fault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from replay.cli import exits, progress
from replay.cli.trusting import settle_trust, with_trust
from replay.cli.values import at_least_one, bundle_path, seconds

if TYPE_CHECKING:
    from replay.diagnosis.course import Progress
    from replay.findings.triage import Triage


@click.command("triage")
@click.argument("path", metavar="BUNDLE", type=bundle_path)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="[+]NAME|MODULE:ATTRIBUTE",
    help="Replay under this one instead of the usual ones; with +, besides them. Repeatable.",
)
@click.option(
    "--timeout",
    type=seconds,
    metavar="SECONDS",
    default=1800.0,
    show_default="1800",
    help="Stop a replay after this; 0: never.",
)
@click.option(
    "--jobs",
    type=at_least_one,
    metavar="N",
    help="Replays at a time.  [default: as many as there are processors]",
)
@click.option(
    "--bisect/--no-bisect",
    default=True,
    help="Where Inductor fails, search on for the pass or the lowering.  [default: --bisect]",
)
@click.option(
    "--compare/--no-compare",
    default=None,
    help="Hold every replay's numbers against uncompiled code.  [default: where the recording is of a success]",
)
@with_trust
@click.option("--json", "as_json", is_flag=True, help="Print the triage as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print the verdict's sentence alone.")
@click.option("-v", "--verbose", count=True, help="All notes and all drift.")
def command(
    path: Path,
    *,
    backends: tuple[str, ...],
    timeout: float,
    jobs: int | None,
    bisect: bool,
    compare: bool | None,
    trust: bool,
    sandbox: bool | None,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Say which part of torch.compile is at fault, or that the program is.

    Replays the frame uncompiled, then under eager, aot_eager, aot_eager_decomp_partition, inductor and the recorded
    backend, each in a process of its own. A replay that hangs, crashes or cannot start is a row of the table.

    Exit codes: 0 a verdict, also that nothing fails here; 2 nothing was replayed: bad option, unreadable bundle; 125
    what would decide it is missing here.
    """
    if quiet and verbose:
        raise click.UsageError("-q and -v contradict each other; give one", click.get_current_context())
    from replay.bundle import load

    with load(path) as bundle:  # first, and without torch: an unreadable file is told at once
        vouched = settle_trust(bundle, trust=trust, sandbox=sandbox)
        from replay.diagnosis import triage

        function = bundle.manifest.frame.function
        with progress.told(f"triage of {function}", enabled=not quiet) as tell:
            found = triage(
                bundle,
                backends=backends,
                timeout=timeout,
                jobs=jobs,
                bisect=bisect,
                compare=compare,
                heard=lambda now: tell(_describe(function, now)),
                **vouched,
            )
    _show(found, as_json=as_json, verbose=-1 if quiet else verbose)
    return exits.STATUS_CODES["missing"] if found.fault == "unknown" else 0


def _describe(function: str, now: Progress) -> str:
    """One line: how far it is, and how the replay that ended last did."""
    if now.bisecting:
        return f"triage of {function}: searching for the pass or the lowering"
    last = f", {now.rungs[-1].name} {now.rungs[-1].status}" if now.rungs else ""
    return f"triage of {function}: {len(now.rungs)} of {now.planned}{last}"


def _show(found: Triage, *, as_json: bool, verbose: int) -> None:
    if as_json:
        from replay.report.plain import triage_json

        exits.emit(triage_json(found))
    else:
        from replay.report.triage import draw_triage

        exits.write_result(lambda stream: draw_triage(found, stream, verbose=verbose))
