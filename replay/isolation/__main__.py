"""`python -m replay.isolation DIRECTORY TARGET`: a child; `--forks DIRECTORY`: the process that forks children."""

from __future__ import annotations

import sys

from replay.isolation import child, forking

if __name__ == "__main__":
    if sys.argv[1] == "--forks":
        forking.serve(sys.argv[2])
    else:
        child.serve(sys.argv[1], sys.argv[2])
