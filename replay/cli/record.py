"""The verb `record`: run somebody's script with the recorder on, and keep its exit code."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from replay import script
from replay.cli import exits
from replay.cli.values import at_least_one
from replay.errors import ReplayError, UsageError
from replay.report.text import count

EVENTS = ("failure", "graph_break", "recompile", "accuracy", "all")
"""As `replay.recorder.happenings.EVENTS`, which needs torch; a test holds them together."""


class ScriptCommand(click.Command):
    """A command whose own options end where the script, or the module after -m, is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Hide what follows `-m MODULE` from click: it belongs to the module."""
        return super().parse_args(ctx, self._protect(args))

    def _protect(self, args: list[str]) -> list[str]:
        takes_value = {
            name
            for parameter in self.params
            if isinstance(parameter, click.Option) and not parameter.is_flag
            for name in parameter.opts
        }
        position = 0
        while position < len(args):
            word = args[position]
            if word == "--" or not word.startswith("-"):
                return args
            if word == "-m":
                return [*args[: position + 2], "--", *args[position + 2 :]]
            if word.startswith("-m"):
                return [*args[: position + 1], "--", *args[position + 1 :]]
            position += 2 if word in takes_value else 1
        return args


@click.command(
    "record",
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@click.option(
    "-o", "--output", "directory", default="recordings", show_default=True, metavar="DIR", help="For bundles."
)
@click.option(
    "--on",
    multiple=True,
    type=click.Choice(EVENTS),
    default=("failure",),
    show_default=True,
    help="What makes a bundle. Repeatable.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="Only functions with this name, qualified name or glob. Repeatable.",
)
@click.option(
    "--tensors",
    type=click.Choice(("auto", "full", "metadata")),
    default="auto",
    show_default=True,
    help="Whose bytes to keep: small ones, all, none.",
)
@click.option(
    "--ship", multiple=True, metavar="PACKAGE", help="Record this installed package's code too. Repeatable."
)
@click.option(
    "--max-bundles", type=at_least_one, metavar="N", default=16, show_default=True, help="Stop after so many."
)
@click.option(
    "--calls",
    is_flag=True,
    help="With --on recompile: count the calls that find compiled code too; slower.",
)
@click.option(
    "--crash-safe",
    is_flag=True,
    help="Have each frame on disk before it is compiled and run; slow. A crash leaves its bundle.",
)
@click.option(
    "--tolerance",
    type=float,
    metavar="X",
    help="Of --on accuracy; default: torch._dynamo.config.repro_tolerance.",
)
@click.option("-m", "module", metavar="MODULE", help="Run a module, as python -m does; ends our options.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT.py|-m MODULE [ARGS]...")
def command(module: str | None, arguments: tuple[str, ...], **options: Any) -> int:
    """Run a script with the recorder on. Each distinct failure becomes a bundle.

    Everything after SCRIPT.py (or after -m MODULE) belongs to the script. Its exit code is kept.
    """
    if module is None and not arguments:
        raise click.UsageError("name the script to run, or -m MODULE", click.get_current_context())
    if module is None:
        program = script.Program(arguments[0], arguments[1:])
    else:
        program = script.Program(module, arguments, is_module=True)
    if Path(options["directory"]).exists() and not Path(options["directory"]).is_dir():
        raise UsageError(f"--output {options['directory']}: it is no directory; name another one")
    _check_place(Path(options["directory"]))
    if options["crash_safe"]:
        exits.say(f"if the process dies, its frame is in {options['directory']}, as *-ProcessDied-*.rec")
    ended, bundles, lost = _run_recorded(program, options)
    code = 0 if ended is None else _end(ended)
    exits.say(_summarise(bundles, lost, failures_only=options["on"] == ("failure",)))
    return code


def _run_recorded(
    program: script.Program, options: dict[str, Any]
) -> tuple[BaseException | None, Sequence[Path], int]:
    """The exception that ended the program, the bundles, and how many failures were lost.

    Errors of our own come out as ReplayError.
    """
    ended: BaseException | None = None
    recorder: Any = None
    settings = {**options, "only": options["only"] or None}
    directory = settings.pop("directory")
    try:
        with script.prepared(program) as start:
            from replay.recorder import record

            with record(directory, **settings) as recorder:
                try:
                    start()
                except BaseException as error:
                    ended = error  # and on to the recorder, which looks at what compiled code raised
                    raise
    except ReplayError as error:
        if error is not ended:
            raise
    except BaseException as error:  # noqa: BLE001  # the program's own, as Python itself would catch it
        ended = error
    return (ended, (), 0) if recorder is None else (ended, recorder.bundles, recorder.lost)


def _end(error: BaseException) -> int:
    """Do what Python does with an exception that nobody caught; returns the exit code."""
    sys.stdout.flush()
    code, text = script.exit_code_of(error)
    if isinstance(error, SystemExit):
        if text is not None:
            print(text, file=sys.stderr)  # noqa: T201  # the script's word, not ours
    else:
        own = script.strip_own_frames(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(own), own)
    return code


def _summarise(bundles: Sequence[Path], lost: int, *, failures_only: bool) -> str:
    if lost:
        told = f"{count(lost, 'failure')} could not be recorded; a RecordingWarning above says why"
        return told if not bundles else f"{told}\n{_summarise(bundles, 0, failures_only=failures_only)}"
    if not bundles:
        return "no failure was recorded" if failures_only else "nothing was recorded"
    what = count(len(bundles), "failure" if failures_only else "bundle")
    commands = [f"  python -m replay {shlex.quote(str(path))}" for path in bundles]
    return "\n".join([f"recorded {what}; to replay:", *commands])


def _check_place(directory: Path) -> None:
    """UsageError where bundles could not be written: better before a long run than after it."""
    there = next(one for one in (directory, *directory.absolute().parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"--output {directory}: nothing can be written in {there}; name another one")
