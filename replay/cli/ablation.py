"""`--ablate`: many replays of the frame in place of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from replay.cli import exits, progress
from replay.cli.trusting import settle_trust


def run(path: Path, *, as_json: bool, quiet: bool, verbose: int, **options: Any) -> int:
    """Ablate and show; the exit code is that of the replay with all settings. `options`: as `replay.run` takes them."""
    _check(options)
    from replay.ablation import ablate
    from replay.bundle import load

    bundle = load(path)  # first, and without torch: an unreadable file is told at once
    options |= settle_trust(bundle, trust=options["trust"], sandbox=options["sandbox"])
    state = {"trials": 0, "left": 0}

    def heard(trials: int, left: int) -> None:
        state.update(trials=trials, left=left)

    def describe() -> str:
        if state["trials"] < 2:
            return "replaying with and without all settings"
        return f"trial {state['trials'] + 1}, at most {state['left']} settings left"

    asked = {
        name: value for name, value in options.items() if name not in ("artifacts", "isolate", "logs", "pdb")
    }
    with progress.shown(describe, enabled=not quiet):
        ablation = ablate(bundle, heard=heard, **asked)
    if as_json:
        from replay.report.plain import ablation_json

        exits.emit(ablation_json(ablation))
    else:
        from replay.report.ablation import draw_ablation

        exits.write_result(lambda stream: draw_ablation(ablation, stream, verbose=-1 if quiet else verbose))
    return exits.STATUS_CODES[ablation.outcome.status]


def _check(options: dict[str, Any]) -> None:
    for name, given in (
        ("--pdb", options["pdb"]),
        ("--no-isolate", not options["isolate"]),
        ("--logs", options["logs"]),
        ("--artifacts", options["artifacts"]),
    ):
        if given:
            raise click.UsageError(
                f"--ablate replays many times, each in a process of its own; leave {name} out",
                click.get_current_context(),
            )
