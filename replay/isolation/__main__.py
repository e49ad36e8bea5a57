"""`python -m replay.isolation DIRECTORY TARGET`: a child; `--forks DIRECTORY`: the process that forks children.

`--confined TASKS BYTES DIRECTORY TARGET`: a child in a sandbox.
"""

from __future__ import annotations

import sys

from replay.isolation import child, confinement, forking

if __name__ == "__main__":
    if sys.argv[1] == "--forks":
        forking.serve(sys.argv[2])
    elif sys.argv[1] == "--confined":
        confinement.confine(int(sys.argv[2]), int(sys.argv[3]))
        child.serve(sys.argv[4], sys.argv[5])
    else:
        child.serve(sys.argv[1], sys.argv[2])
