"""The options of a replay, as several verbs take them, and what they mean to `replay.run`. No verb lives here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from replay.cli import exits, trusting
from replay.cli.values import (
    assignment,
    at_least_one,
    literal_assignment,
    names,
    seconds,
    tolerance,
)


def list_logs(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """With `--logs help`, show what torch can log, and end; no bundle is needed for that."""
    asked = [one for one in given if one in ("help", "+help")]
    if not asked:
        return given
    from replay.report.logs import draw_logs
    from replay.torch_adapter import logs

    found = logs.available()
    exits.write_result(lambda stream: draw_logs(found, stream, everything="+help" in asked))
    raise click.exceptions.Exit(0)


OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option(
        "--backend",
        metavar="NAME|MODULE:ATTRIBUTE",
        help="Compile with this one; `help` lists them.  [default: as recorded]",
    ),
    click.option(
        "--function",
        multiple=True,
        metavar="PATTERN",
        help="Compile only functions with this name, qualified name or glob. Repeatable.",
    ),
    click.option(
        "--recompile-limit", type=at_least_one, metavar="N", help="Compiles of a function, at most."
    ),
    click.option(
        "--accumulated-recompile-limit",
        type=at_least_one,
        metavar="N",
        help="The same, over all its objects.",
    ),
    click.option("--dynamic/--no-dynamic", default=None, help="Dynamic shapes.  [default: as recorded]"),
    click.option("--fullgraph/--no-fullgraph", default=None, help="No graph breaks.  [default: as recorded]"),
    click.option(
        "--backward/--no-backward", default=None, help="Run the backward too.  [default: as recorded]"
    ),
    click.option("--mode", metavar="NAME", help="torch.compile's mode, such as max-autotune."),
    click.option(
        "--config",
        multiple=True,
        type=literal_assignment,
        metavar="KEY=VALUE",
        help="A config value, such as dynamo.suppress_errors=true. Repeatable.",
    ),
    click.option(
        "--env",
        multiple=True,
        type=assignment,
        metavar="KEY=VALUE",
        help="An environment variable of the replay. Repeatable.",
    ),
    click.option(
        "--without",
        multiple=True,
        type=names,
        metavar="NAME,...",
        help="Do without these recorded settings, such as state.autocast; --ablate names them. Repeatable.",
    ),
    click.option(
        "--device",
        metavar="cpu|cuda[:N]",
        help="Everything on this device.  [default: as recorded, else what is nearest]",
    ),
    click.option("--fake", is_flag=True, help="Fake tensors: compile, and run nothing."),
    click.option(
        "--compare",
        is_flag=True,
        help="Outputs, written inputs and gradients against uncompiled code and float64.",
    ),
    click.option(
        "--tolerance",
        type=tolerance,
        metavar="X",
        help="What --compare allows.  [default: as recorded, or torch's repro_tolerance]",
    ),
    click.option(
        "--logs",
        multiple=True,
        metavar="SPEC",
        is_eager=True,
        callback=list_logs,
        help="Log to stderr, as TORCH_LOGS says: +dynamo,graph_breaks. Repeatable; `help` lists the names.",
    ),
    click.option(
        "--artifacts",
        metavar="DIR",
        help="Keep what torch makes: graphs, IR, kernels, guards, bytecode, logs. A new directory.",
    ),
    click.option(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        default=1800.0,
        show_default="1800",
        help="Give up after this; 0: never.",
    ),
    click.option("--pdb", is_flag=True, help="Debugger where it fails; implies --no-isolate."),
    *trusting.OPTIONS,
    click.option(
        "--isolate/--no-isolate",
        default=None,
        help="In a child process (default), or in this one: a crash or a hang is then yours.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the outcome as one JSON object."),
    click.option("-q", "--quiet", is_flag=True, help="Print the verdict's line alone."),
    click.option("-v", "--verbose", count=True, help="Frames and all drift; -vv: the traceback too."),
)


def with_options(*, without: Sequence[str] = ()) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """The options of a replay, in the order of OPTIONS. `without`: parameters that a verb has no use for."""

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        for option in reversed(OPTIONS):
            if _parameter(option) not in without:
                function = option(function)
        return function

    return decorate


def _parameter(option: Callable[[Any], Any]) -> str:
    """The name under which an option's value reaches the command."""

    def bare() -> None:
        """Nothing but the option."""

    (made,) = option(bare).__click_params__
    return str(made.name)


def settle(options: dict[str, Any]) -> dict[str, Any]:
    """The options as `replay.run` takes them; those that a verb left out stay out."""
    pdb = options.get("pdb", False)
    if pdb and options["isolate"]:
        raise click.UsageError(
            "--pdb needs the replay in this process; leave --isolate out", click.get_current_context()
        )
    if pdb and (sys.stdin is None or sys.stdin.closed):
        raise click.UsageError(
            "--pdb reads its commands from standard input, and there is none", click.get_current_context()
        )
    isolate = not pdb if options["isolate"] is None else options["isolate"]
    return {
        **options,
        "config": dict(options["config"]),
        "env": dict(options["env"]),
        "logs": ",".join(options["logs"]) or None,
        "without": tuple(name for given in options["without"] for name in given),
        "isolate": isolate,
    }
