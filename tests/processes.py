"""Run Python elsewhere: another process, another directory, with this `replay` and nothing else of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run_python(directory: Path, *arguments: str) -> str:
    """Standard output of `python ARGUMENTS` in `directory`; fails the test with the end of its error output."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def run_at_terminal(
    directory: Path, arguments: Sequence[str], prompt: str, words: Sequence[str]
) -> tuple[int, str]:
    """Run `python ARGUMENTS` at a pseudo-terminal, and type one of the words at each prompt.

    The exit code, and all that the terminal showed.
    """
    import pty  # not on Windows

    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb", "NO_COLOR": "1"}
    child = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=directory,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown, waiting, seen = "", list(words), 0
    try:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how Linux says that the other end is closed
                break
            if not part:
                break
            shown += part.decode(errors="replace")
            if waiting and shown.count(prompt) > seen:
                seen = shown.count(prompt)
                os.write(ours, (waiting.pop(0) + "\n").encode())
        return child.wait(60), shown.replace("\r\n", "\n")
    finally:
        child.kill()
        child.wait()
        os.close(ours)
