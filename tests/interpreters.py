"""The other Pythons of this machine, for tests of what does not need torch. Found through pyenv or PATH."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.10", "3.11", "3.12", "3.13")
HERE = "{}.{}".format(*sys.version_info)


@functools.cache
def interpreter(version: str) -> str | None:
    """A Python of this version that runs; None if there is none."""
    if version == HERE:
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [str(path / "bin" / "python") for path in sorted(root.glob(f"{version}.*"))]
    for candidate in (*candidates, shutil.which(f"python{version}")):
        if candidate and _runs(candidate, version):
            return candidate
    return None


def _runs(candidate: str, version: str) -> bool:
    command = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return False
    return done.stdout.strip() == version
