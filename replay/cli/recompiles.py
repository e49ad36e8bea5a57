"""The verb `recompiles`: why a recorded frame is compiled again and again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from replay.cli import exits, progress
from replay.cli.grid import check_picture, with_grid, write_picture
from replay.cli.options import settle, with_options
from replay.cli.trusting import settle_trust
from replay.cli.values import at_least_one, bundle_path, find_bundles

if TYPE_CHECKING:
    from replay.findings.recompiles import Recompiles

_NO_USE = (
    "artifacts",
    "as_json",
    "backward",
    "compare",
    "fake",
    "fullgraph",
    "function",
    "logs",
    "mode",
    "pdb",
    "quiet",
    "tolerance",
    "verbose",
)
AGAIN = 1


@click.command("recompiles")
@click.argument("paths", metavar="BUNDLE|DIRECTORY...", nargs=-1, required=True)
@click.option(
    "--function",
    multiple=True,
    metavar="PATTERN",
    help="Only bundles of these functions, and only they are compiled: a name, qualified name or glob. Repeatable.",
)
@with_grid
@click.option("--no-grid", is_flag=True, help="Leave out the repetitions under other limits.")
@click.option(
    "--remedies/--no-remedies",
    default=True,
    help="Repeat the calls with what may help, and tell what does.  [default: --remedies]",
)
@click.option(
    "--jobs",
    type=at_least_one,
    metavar="N",
    help="Replays at a time.  [default: as many as there are processors]",
)
@with_options(without=_NO_USE)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
@click.option("-v", "--verbose", count=True, help="Every guard of every cached entry, and every call.")
def command(
    paths: tuple[str, ...],
    *,
    limits: tuple[int, ...],
    accumulated_limits: tuple[int, ...],
    no_grid: bool,
    svg: Path | None,
    remedies: bool,
    jobs: int | None,
    as_json: bool,
    verbose: int,
    **options: Any,
) -> int:
    """Repeat the recorded calls of a frame; say of each that was compiled again what made it so, and what helps.

    The calls are repeated as recorded, under other recompile limits with dynamic shapes and without, and with what a
    specialist would try; what measurably helps is told, with the measured difference.

    A bundle of a sequence is needed: record one with `python -m replay record --on recompile`. Of a directory, each
    such bundle in it is reported.

    Exit codes: 0 no call was compiled again and no limit hit, 1 some were, 2 nothing was replayed, 125 missing.
    """
    if svg is not None:
        _check_svg(svg, paths, no_grid=no_grid)
    wider: dict[str, Any] = {
        "limits": () if no_grid else limits,
        "accumulated_limits": () if no_grid else accumulated_limits,
        "remedies": remedies,
        "jobs": jobs,
    }
    settled = {**settle({**options, "logs": ()}), "function": options["function"]}
    del settled["logs"]
    asked = {**wider, **settled}
    found = [_repeated(path, asked) for path in _chosen(paths, options["function"])]
    if svg is not None:
        write_picture(svg, found[0].grid, f"{found[0].function}: compilations by recompile limit")
        exits.say(f"wrote {svg}")
    _show(found, alone=len(paths) == 1 and not Path(paths[0]).is_dir(), as_json=as_json, verbose=verbose)
    return _code(found)


def _repeated(path: Path, asked: dict[str, Any]) -> Recompiles:
    """One bundle, with the options of `replay.recompiles`."""
    from replay.bundle import load
    from replay.recompilation import recompiles

    with load(path) as bundle:
        vouched = settle_trust(
            bundle, trust=asked["trust"], sandbox=asked["sandbox"], isolate=asked["isolate"]
        )
        with progress.told(path.name) as tell, redirect_stdout(sys.stderr):
            return recompiles(bundle, heard=lambda now: tell(f"{path.name}: {now}"), **{**asked, **vouched})


def _chosen(paths: Sequence[str], patterns: Sequence[str]) -> list[Path]:
    """The bundles to repeat: those named, and of each directory those that hold a sequence."""
    from replay.bundle import load
    from replay.errors import UsageError
    from replay.selection import Selection

    selection, offered, chosen = Selection.of(patterns), [], []
    for text in paths:
        folder = Path(text).is_dir()
        for path in find_bundles(Path(text)) if folder else [bundle_path(text)]:
            with load(path) as bundle:
                frame, sequence = bundle.manifest.frame, bundle.manifest.sequence
            if folder and sequence is None:
                continue
            offered.append(frame.function)
            if selection.matches_frame(frame.name, frame.function):
                chosen.append(path)
    if not chosen and offered:
        raise UsageError(f"--function {selection}: matches none of {', '.join(sorted(set(offered)))}")
    if not chosen:
        raise UsageError(f"{', '.join(paths)}: no bundle with a sequence of calls is there; {_how()}")
    return chosen


def _check_svg(svg: Path, paths: Sequence[str], *, no_grid: bool) -> None:
    """Before the long work: nothing to draw, or a file that cannot be written."""
    if no_grid:
        raise click.UsageError("--svg draws the grid; leave --no-grid out", click.get_current_context())
    if len(paths) > 1 or Path(paths[0]).is_dir():
        raise click.UsageError("--svg draws one bundle; name just that", click.get_current_context())
    check_picture(svg)


def _how() -> str:
    from replay.recompilation.repeating import HOW

    return HOW


def _show(found: Sequence[Recompiles], *, alone: bool, as_json: bool, verbose: int) -> None:
    if as_json:
        from replay.report.plain import recompiles_json

        exits.emit(recompiles_json(found[0] if alone else found))
    else:
        from replay.report.recompiles import draw_recompiles

        def draw(stream: TextIO) -> None:
            for at, one in enumerate(found):
                draw_recompiles(one, stream, verbose=verbose, first=not at)

        exits.write_result(draw)


def _code(found: Sequence[Recompiles]) -> int:
    if any(one.count is None or one.outcome.status == "missing" for one in found):
        return exits.STATUS_CODES["missing"]
    return AGAIN if any(one.again for one in found) else 0
