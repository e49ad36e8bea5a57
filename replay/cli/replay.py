"""The default verb: replay just the recorded frame."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replay.cli import exits, progress
from replay.cli.values import (
    assignment,
    at_least_one,
    bundle_path,
    literal_assignment,
    names,
    seconds,
    tolerance,
)

if TYPE_CHECKING:
    from replay.bundle import Bundle
    from replay.recording import Outcome


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
    click.option(
        "--trust",
        is_flag=True,
        help="Accepted, and without effect yet: a replay runs code from the bundle. A later version will "
        "ask for this where a bundle needs more than the frame's own code.",
    ),
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
    trust: bool,
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

        return ablation.run(path, as_json=as_json, quiet=quiet, verbose=verbose, **_settle(options))
    outcome = _run(path, verbose=verbose, quiet=quiet, **_settle(options))
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


def _settle(options: dict[str, Any]) -> dict[str, Any]:
    """The options as `replay.run` takes them."""
    if options["pdb"] and options["isolate"]:
        raise click.UsageError(
            "--pdb needs the replay in this process; leave --isolate out", click.get_current_context()
        )
    if options["pdb"] and (sys.stdin is None or sys.stdin.closed):
        raise click.UsageError(
            "--pdb reads its commands from standard input, and there is none", click.get_current_context()
        )
    isolate = not options["pdb"] if options["isolate"] is None else options["isolate"]
    return {**gather(options), "isolate": isolate}


def gather(options: dict[str, Any]) -> dict[str, Any]:
    """Options with those that may be given several times as `replay.run` takes them."""
    return {
        **options,
        "config": dict(options["config"]),
        "env": dict(options["env"]),
        "logs": ",".join(options["logs"]) or None,
        "without": tuple(name for given in options["without"] for name in given),
    }


def _run(path: Path, *, quiet: bool, verbose: int, **options: Any) -> Outcome:
    from replay.bundle import load

    bundle = load(path)  # first, and without torch: an unreadable file is told at once
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
