"""The verb `profile`: where a frame's time goes, compiling and running."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from replay.cli import exits, progress
from replay.cli.trusting import settle_trust, with_trust
from replay.cli.values import at_least_one, bundle_path, seconds


@click.command("profile")
@click.argument("path", metavar="BUNDLE", type=bundle_path)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="NAME|MODULE:ATTRIBUTE",
    help="Measure under this one. Repeatable.  [default: eager, aot_eager, inductor, the recorded one]",
)
@click.option("--backward/--no-backward", default=None, help="Run the backward too.  [default: as recorded]")
@click.option("--device", metavar="cpu|cuda[:N]", help="Everything on this device.  [default: as recorded]")
@click.option(
    "--seconds",
    type=seconds,
    default=1.0,
    show_default="1",
    metavar="SECONDS",
    help="Run it for so long under each backend.",
)
@click.option(
    "--repeat", type=at_least_one, default=1000, show_default="1000", metavar="N", help="Runs, at most."
)
@click.option("--trace", type=Path, metavar="FILE", help="Write a trace for Perfetto: .json or .json.gz.")
@click.option(
    "--timeout",
    type=seconds,
    metavar="SECONDS",
    default=600.0,
    show_default="600",
    help="Give up on a backend after this; 0: never.",
)
@with_trust
@click.option("--json", "as_json", is_flag=True, help="Print the profile as one JSON object.")
@click.option("-v", "--verbose", count=True, help="Phases and operators of every backend.")
def command(path: Path, as_json: bool, verbose: int, **options: Any) -> int:
    """Measure how long the frame takes to compile, by phase, and to run under each backend.

    Uncompiled comes first; each measurement has the machine to itself. A backend under which the frame fails is a
    row with its error.

    Exit codes: 0 something was measured; else, as a replay's: 1 reproduced, 2 nothing was replayed, 3 different,
    125 missing.
    """
    from replay.bundle import load

    bundle = load(path)  # first, and without torch: an unreadable file is told at once
    options |= settle_trust(bundle, trust=options["trust"], sandbox=options["sandbox"])
    from replay.profiling import profile

    with ExitStack() as shown:

        def heard(what: str) -> None:
            shown.close()
            shown.enter_context(progress.shown(what))

        found = profile(bundle, heard=heard, **options)
    if as_json:
        from replay.report.plain import profile_json

        exits.emit(profile_json(found))
    else:
        from replay.report.profile import draw_profile

        exits.write_result(lambda stream: draw_profile(found, stream, verbose=verbose))
    return 0 if found.measured else exits.STATUS_CODES.get(found.status, exits.USAGE)
