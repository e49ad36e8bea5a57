"""What a repetition of a sequence came to, in numbers. One way to count, so that all numbers can be compared."""

from __future__ import annotations

from collections.abc import Iterable

from replay.findings.recompiles import Count
from replay.recording import CallOutcome


def count(calls: Iterable[CallOutcome]) -> Count:
    """What a repetition came to. A call that raised is no hit and did not run uncompiled; it may have compiled."""
    made = list(calls)
    return Count(
        compiles=sum(one.fate == "compiled" for one in made),
        hits=sum(one.fate == "hit" and not one.error for one in made),
        uncompiled=sum(one.fate == "uncompiled" and not one.error for one in made),
        errors=sum(bool(one.error) for one in made),
        seconds=sum(one.seconds for one in made),
    )
