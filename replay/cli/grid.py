"""The options of a verb that repeats a sequence under a grid of settings, and its picture. No verb lives here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replay.cli.values import numbers

if TYPE_CHECKING:
    from replay.findings.recompiles import Cell

LIMITS = "1,2,4,8,16,64"

OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option(
        "--limits",
        type=numbers,
        default=LIMITS,
        show_default=LIMITS,
        metavar="N,...",
        help="Recompile limits to repeat the calls under, each with dynamic shapes, without, and automatic.",
    ),
    click.option(
        "--accumulated-limits",
        type=numbers,
        callback=lambda context, option, given: given or (),
        metavar="N,...",
        help="Accumulated limits, each with each of those.  [default: as recorded]",
    ),
    click.option("--svg", type=Path, metavar="FILE", help="Draw what comes of it to a file: .svg."),
)


def with_grid(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb these options: `limits`, `accumulated_limits`, `svg`."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def check_picture(svg: Path | None) -> None:
    """UsageError for a place that will not do, before anything is replayed."""
    if svg is not None:
        from replay.report import chart

        chart.check(svg)


def write_picture(svg: Path | None, cells: Sequence[Cell], title: str) -> None:
    """Write the picture, if one was asked for."""
    if svg is not None:
        from replay.report import chart

        chart.write_chart(svg, cells, title)
