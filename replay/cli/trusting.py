"""`--trust`, `--sandbox`, `--no-sandbox`, and the question at a terminal where nobody vouches for a bundle.

The policy itself lives in `replay.trust.policy`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from replay.cli import exits
from replay.errors import UntrustedError

if TYPE_CHECKING:
    from replay.bundle import Bundle

QUESTION = "Run its code here, with all that you may do? [y/N] "

OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option(
        "--trust",
        is_flag=True,
        help="Run the bundle's code here, whoever made it. Not needed for your own, and in directories that you trust.",
    ),
    click.option(
        "--sandbox/--no-sandbox",
        default=None,
        help="Without network and your files (bubblewrap).  [default: bundles that are not trusted]",
    ),
)


def with_trust(function: Callable[..., int]) -> Callable[..., int]:
    """The options, for a verb that replays and has no other options of a replay."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def settle_trust(
    bundle: Bundle, *, trust: bool, sandbox: bool | None, isolate: bool = True
) -> dict[str, bool | None]:
    """`trust` and `sandbox` as `replay.run` takes them. At a terminal, who runs the command may vouch for the bundle.

    Raises UntrustedError where the bundle is not to be replayed, and UsageError for a sandbox that cannot be had.
    """
    from replay.trust import admit, standing_of

    given: dict[str, bool | None] = {"trust": trust or None, "sandbox": sandbox}
    try:
        admit(bundle, isolate=isolate, **given)
    except UntrustedError as error:
        if not _at_terminal():
            raise
        from replay.contents.imports import imports_of
        from replay.report.trust import draw_request

        draw_request(bundle, standing_of(bundle), imports_of(bundle), sys.stderr, lacking=error.lacking)
        if not _agrees():
            raise UntrustedError(f"{bundle.path}: not replayed") from None
        return {**given, "trust": True}
    return given


def _at_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _agrees() -> bool:
    """Whether the answer is yes; the end of the input is none."""
    sys.stderr.write(QUESTION)
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        exits.say("no answer")
    return answer.strip().lower() in ("y", "yes")
