"""The command `replay`: its verbs, and the default verb. Options live with the verbs."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from replay._version import __version__
from replay.cli import exits

# Verb -> module, imported when it is used: `--help` and `inspect` start faster.
VERBS = {
    "replay": "replay.cli.replay",
    "record": "replay.cli.record",
    "inspect": "replay.cli.inspect",
    "source": "replay.cli.source",
    "verify": "replay.cli.verify",
    "diff": "replay.cli.diff",
    "strip": "replay.cli.strip",
    "triage": "replay.cli.triage",
    "explain": "replay.cli.explain",
    "profile": "replay.cli.profile",
    "recompiles": "replay.cli.recompiles",
    "trust": "replay.cli.trust",
    "export": "replay.cli.export",
    "issue": "replay.cli.issue",
}

DEFAULT = "replay"

SUMMARIES = {
    "replay": "Replay just that frame (the default: `BUNDLE` alone does it).",
    "record": "Run a script, or -m MODULE, with the recorder on.",
    "inspect": "Show what is inside; runs no code from it.",
    "source": "Print the user's files that travel in it.",
    "verify": "Check every digest: is it what was recorded?",
    "diff": "In what two bundles differ.",
    "strip": "Write it again with less of yours in it.",
    "triage": "Which part of the compiler is at fault, or the program.",
    "explain": "Graphs, graph breaks, guards: what the compiler makes of it.",
    "profile": "Where its time goes: compiling by phase, running, operators.",
    "recompiles": "Why it is compiled again and again.",
    "trust": "Directories whose bundles are replayed at once, whoever made them.",
    "export": "One runnable Python file of it, without replay.",
    "issue": "The text of a bug report for PyTorch, and its attachment.",
}

EXIT_CODES = """\b
Exit codes of a replay, fit for `git bisect run`:
  0    passed       the frame compiled and ran
  1    reproduced   the recorded failure happened again
  2                 nothing was replayed: bad option, unreadable bundle
  3    different    it failed, but otherwise than recorded
  125  missing      the recording or this machine lacks something
"""


class Application(click.Group):
    """A group whose first argument may be a bundle, or an option of the default verb."""

    def run(self, arguments: Sequence[str] | None) -> int:
        """Run without click's own handling of errors; returns the verb's exit code."""
        given = list(sys.argv[1:] if arguments is None else arguments)
        code = super().main(args=given, standalone_mode=False)
        return code if isinstance(code, int) else 0

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> Any:
        """As click expects of a command; its test runner calls this one."""
        sys.exit(exits.run_to_exit_code(lambda: self.run(args)))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, the default one first."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command, imported now."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(VERBS[cmd_name]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, SUMMARIES[name]) for name in VERBS])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default verb before arguments that begin with a bundle or with an option of a replay."""
        if not args:
            click.echo(self.get_help(ctx), err=True)
            ctx.exit(exits.USAGE)
        if args[0] not in VERBS and args[0] not in ("--help", "-h", "--version"):
            _refuse_misspelt(args[0], ctx)
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


def _refuse_misspelt(word: str, ctx: click.Context) -> None:
    """A word that is like a verb, and is neither a file nor named like one, was meant as a verb."""
    if word.startswith("-") or Path(word).suffix or Path(word).exists():
        return
    near = difflib.get_close_matches(word, VERBS, n=1)
    if near:
        raise click.UsageError(f"no such verb or file: {word!r}; did you mean {near[0]!r}?", ctx)


@click.command(
    cls=Application,
    context_settings={"help_option_names": ["-h", "--help"]},
    options_metavar="",
    subcommand_metavar="BUNDLE [OPTIONS] | VERB ...",
    epilog=EXIT_CODES,
)
@click.version_option(__version__, prog_name="torch-replay", message="%(prog)s %(version)s")
def application() -> None:
    """Record the frame that torch.compile fails on; replay just that frame anywhere.

    `python -m replay BUNDLE` replays; `python -m replay replay --help` lists its options.
    """
