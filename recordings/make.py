"""Make the bundles of this folder: run each program with the recorder on, in an empty directory of its own.

    python recordings/make.py                 the programs that have no bundle yet
    python recordings/make.py NAME ...        these; a bundle that exists is never written over

A bundle, once made, stays as it is: it shows that later versions still replay what an older one recorded. To
record anew, add a program under another name. A line `# record: {"on": "accuracy"}` in a program says what is recorded.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORK = Path("/tmp/replay-recordings")
PACKAGES = ("vision",)


def make(name: str) -> None:
    """Record one program and keep its bundle as `NAME.rec`."""
    target = HERE / f"{name}.rec"
    if target.exists():
        sys.exit(f"{target} exists; recordings are never written over")
    directory = WORK / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    shutil.copy(HERE / f"{name}.py", directory)
    for package in PACKAGES:
        shutil.copytree(HERE / package, directory / package, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "replay", "record", "-o", "failures", *_options(name), f"{name}.py"],
        cwd=directory,
        check=False,  # the programs fail, that is the point
        capture_output=True,
    )
    bundles = list(directory.glob("failures/*.rec"))
    if len(bundles) != 1:
        sys.exit(f"{name}: {len(bundles)} bundles, expected one")
    shutil.move(bundles[0], target)
    print(f"{target.name}  {target.stat().st_size:,} bytes")


def _options(name: str) -> list[str]:
    """The command's options that a program asks for; `true` is a flag."""
    text = (HERE / f"{name}.py").read_text(encoding="utf-8")
    line = re.search(r"^# record: (.+)$", text, re.MULTILINE)
    asked = json.loads(line[1]) if line else {}
    return [
        word
        for option, value in asked.items()
        for word in ([f"--{option}"] if value is True else [f"--{option}", value])
    ]


def main() -> None:
    """Make what is asked for, or what is not there yet."""
    names = sys.argv[1:] or sorted(
        path.stem
        for path in HERE.glob("*.py")
        if path != Path(__file__).resolve() and not path.with_suffix(".rec").exists()
    )
    for name in names:
        make(name)


if __name__ == "__main__":
    main()
