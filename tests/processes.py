"""Run Python elsewhere: another process, another directory, with this `replay` and nothing else of ours."""

from __future__ import annotations

import os
import subprocess
import sys
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
