"""A sandboxed child's first act: limits of its own that it cannot raise again. The kernel holds it to them.

They are per process, and coarse; the whole of a sandbox is watched from outside, see `metering`.
"""

from __future__ import annotations

import os
import sys


def confine(tasks: int, largest: int) -> None:
    """At most so many processes and threads of this user, no file of more bytes, no core dump."""
    import resource  # not on Windows

    for which, limit in (
        (resource.RLIMIT_NPROC, tasks),  # the kernel excepts the machine's own root
        (resource.RLIMIT_FSIZE, largest),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(which)
        lower = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (lower, lower))
    sys.path[:] = [one for one in sys.path if one not in ("", os.getcwd())]
