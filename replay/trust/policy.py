"""How a bundle may be replayed: at once, in a sandbox, or only if a person says so.

| | trusted | not trusted |
|---|---|---|
| nothing said | at once | in a sandbox; refused where there is none |
| `trust` | at once | at once |
| `sandbox` | in a sandbox | in a sandbox |
| `sandbox=False` | at once | refused |
| in this process | at once | refused |

`sandbox` holds also where `trust` is given. What is refused here, the command line asks a person about.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from replay import isolation
from replay.errors import UntrustedError, UsageError
from replay.trust.seals import Sealed
from replay.trust.standing import Standing, standing_of


@dataclass(frozen=True, slots=True)
class Admission:
    """How a bundle is to be replayed."""

    sandboxed: bool
    why: str = ""  # of a sandbox, for people


def admit(
    bundle: Sealed, *, trust: bool | None = None, sandbox: bool | None = None, isolate: bool = True
) -> Admission:
    """How the bundle is to be replayed, by the table above. `isolate`: in a child process.

    UntrustedError where nobody vouches for it; UsageError for a sandbox that cannot be had.
    """
    if sandbox:
        lacking = "it needs a process of its own" if not isolate else isolation.sandbox_lacking()
        if lacking:
            raise UsageError(f"--sandbox: {lacking}; leave it out, and give --trust if you trust the bundle")
        return Admission(True, "as asked")
    if trust:
        return Admission(False)
    standing = standing_of(bundle)
    if standing.trusted:
        return Admission(False)
    lacking = _no_sandbox(isolate=isolate, wanted=sandbox)
    if not lacking:
        return Admission(True, f"the bundle is {standing.said}")
    raise UntrustedError(_refusal(bundle, standing, lacking), lacking)


def _no_sandbox(*, isolate: bool, wanted: bool | None) -> str:
    if not isolate:
        return "in this process there is no sandbox"
    return "you asked for no sandbox" if wanted is False else isolation.sandbox_lacking()


def _refusal(bundle: Sealed, standing: Standing, lacking: str) -> str:
    path = shlex.quote(bundle.path)
    lines = [
        f"{bundle.path}: {standing.said}; a replay runs its code, and {lacking}",
        *standing.notes,
        f"look first (nothing runs): python -m replay inspect {path}",
        "then, if you trust it: --trust, or once for a whole directory: python -m replay trust DIRECTORY",
    ]
    return "\n".join(lines)
