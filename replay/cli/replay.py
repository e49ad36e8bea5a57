"""The default verb: replay just the recorded frame."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replay.cli import exits, progress
from replay.cli.options import settle, with_options
from replay.cli.trusting import settle_trust
from replay.cli.values import bundle_path

if TYPE_CHECKING:
    from replay.bundle import Bundle
    from replay.recording import Outcome


@click.command("replay")
@click.argument("path", metavar="BUNDLE", type=bundle_path, required=False)
@with_options()
@click.option(
    "--ablate", is_flag=True, help="Find which recorded settings the failure needs, by many replays."
)
def command(
    path: Path | None,
    *,
    as_json: bool,
    quiet: bool,
    verbose: int,
    ablate: bool,
    **options: Any,
) -> int:
    """Replay just the recorded frame, as recorded or under another backend.

    Exit codes: 0 passed, 1 reproduced, 2 nothing was replayed, 3 different, 125 missing.
    """
    if options["backend"] == "help":
        return _list_backends(as_json=as_json)
    if path is None:
        raise click.UsageError("Missing argument 'BUNDLE'.", click.get_current_context())
    if quiet and verbose:
        raise click.UsageError("-q and -v contradict each other; give one", click.get_current_context())
    if ablate:
        from replay.cli import ablation

        return ablation.run(path, as_json=as_json, quiet=quiet, verbose=verbose, **settle(options))
    outcome = _run(path, verbose=verbose, quiet=quiet, **settle(options))
    _show(outcome, as_json=as_json, verbose=-1 if quiet else verbose)
    return exits.STATUS_CODES[outcome.status]


def _list_backends(*, as_json: bool) -> int:
    """What `--backend help` prints; no bundle is opened."""
    from replay.report.backends import draw_backends
    from replay.report.plain import backends_json
    from replay.torch_adapter.backends import backends

    with progress.shown("importing torch", enabled=True):
        found = backends()
    if as_json:
        exits.emit(backends_json(found))
    else:
        exits.write_result(lambda stream: draw_backends(found, stream))
    return 0


def _run(path: Path, *, quiet: bool, verbose: int, **options: Any) -> Outcome:
    from replay.bundle import load

    bundle = load(path)  # first, and without torch: an unreadable file is told at once
    options |= settle_trust(
        bundle, trust=options["trust"], sandbox=options["sandbox"], isolate=options["isolate"]
    )
    from replay.replayer import run

    # In this process the replayed code may print: that is no result of ours. A debugger needs the terminal itself.
    debugs = options["pdb"] and sys.stdout.isatty()
    guard: AbstractContextManager[Any] = nullcontext() if debugs else redirect_stdout(sys.stderr)
    with progress.shown(_describe(bundle, options["backend"]), enabled=not (quiet or options["pdb"])), guard:
        outcome: Outcome = run(bundle, verbose=verbose, **options)
    return outcome


def _describe(bundle: Bundle, backend: str | None) -> str:
    manifest = bundle.manifest
    return f"compiling {manifest.frame.function} under {backend or manifest.compile.backend}"


def _show(outcome: Outcome, *, as_json: bool, verbose: int) -> None:
    if as_json:
        from replay.report.plain import outcome_json

        exits.emit(outcome_json(outcome))
    else:
        from replay.report.verdict import draw_verdict

        exits.write_result(lambda stream: draw_verdict(outcome, stream, verbose=verbose))
