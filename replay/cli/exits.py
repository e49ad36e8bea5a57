"""The one place that turns errors into exit codes and messages. No verb catches what it cannot answer."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import click

from replay.errors import MissingError, ReplayError
from replay.report.text import clean

STATUS_CODES = {"passed": 0, "reproduced": 1, "different": 3, "missing": 125}
USAGE = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
BUG = 255  # above 127, so that `git bisect run` stops instead of counting our bug as a bad revision
BROKEN_PIPE = 141  # 128 + SIGPIPE

ISSUES = "this is a bug in replay: please report it with the lines above"


def run_to_exit_code(action: Callable[[], int]) -> int:
    """Run an action; what it raises becomes a message on stderr and an exit code; SystemExit passes."""
    try:
        code = action()
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        say(f"error: {_message_of(error)}")
        return USAGE
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        close_stdout()
        return BROKEN_PIPE
    except ReplayError as error:
        say(f"error: {error}")
        return STATUS_CODES["missing"] if isinstance(error, MissingError) else USAGE
    except Exception:  # noqa: BLE001  # the boundary of the program: whatever comes here is a bug of ours
        traceback.print_exc()
        say(ISSUES)
        return BUG
    return code


def emit(text: str) -> None:
    """Write a result to standard output. A reader that went away (`| head`) does not change the exit code."""
    write_result(lambda stream: stream.write(text + "\n"))


def write_text(text: str) -> None:
    """As `write_result`, for a file's text: as it is; on a terminal without the escapes that strangers put into it."""
    write_result(lambda stream: stream.write(clean(text) if stream.isatty() else text))


def write_result(draw: Callable[[Any], object]) -> None:
    """As `emit`, for a report that draws on a stream. Characters that its encoding lacks come out escaped."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)  # a test's or a notebook's stream may lack it
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    try:
        draw(sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        close_stdout()
    except OSError as error:
        close_stdout()
        raise ReplayError(f"standard output cannot be written: {error.strerror or error}") from error


def say(text: str) -> None:
    """Write a message to standard error: everything that is no result."""
    try:
        stream = sys.stderr
        stream.write(clean(f"replay: {text}") + "\n")
        stream.flush()
    except (BrokenPipeError, AttributeError):
        return  # nobody listens, or there is no stderr (pythonw); the exit code still tells


def close_stdout() -> None:
    """Point standard output at nothing, or Python complains once more when it flushes at its end."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _message_of(error: click.ClickException) -> str:
    message = error.format_message()
    if type(error) is click.BadParameter and error.param is not None:
        message = f"{' or '.join(error.param.opts)}: {error.message}"
    context = error.ctx if isinstance(error, click.UsageError) else None
    return message if context is None else f"{message}\ntry: {context.command_path} --help"
