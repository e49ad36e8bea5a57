"""Arguments in, exit code out: one small file for each verb, and `exits.py`, which maps errors to codes.

Importing this package loads neither torch nor click; `main` does the latter.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv[1:]` where no arguments are given) and return its exit code."""
    from replay.cli.application import application
    from replay.cli.exits import run_to_exit_code

    return run_to_exit_code(lambda: application.run(arguments))
