"""Delta debugging: the smallest set of things under which something still fails. Knows neither settings nor replays.

The algorithm is ddmin of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions
on Software Engineering 28(2), 2002. Of its two steps only "reduce to complement" is made. Halves are each other's
complements, so the first round tries the halves themselves; and that the result is 1-minimal follows from the last
round, which leaves out one thing at a time. A small part on its own is tried only when the rest has fallen away.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

Thing = TypeVar("Thing")
Fails = Callable[[Sequence[tuple[Thing, ...]]], Sequence[bool]]
"""Whether it fails with these things alone, for several sets at once."""


def minimise(things: Sequence[Thing], fails: Fails[Thing], *, at_once: int = 1) -> tuple[Thing, ...]:
    """A part of `things`, in their order, with which it fails, and without any one of which it does not: 1-minimal.

    It must fail with all of them. A smaller set that is no part of the result may exist, also where the failure
    depends on more than the presence of single things. `at_once`: how many sets `fails` is asked of together; the
    first that fails, in order, is taken, so that the result does not depend on which trial ends first.
    """
    kept, parts = tuple(things), 2
    while kept:
        parts = min(parts, len(kept))
        smaller = _first(_complements(kept, parts), fails, at_once)
        if smaller is not None:
            kept, parts = smaller, max(parts - 1, 2)
        elif parts == len(kept):
            break
        else:
            parts = min(2 * parts, len(kept))
    return kept


def _complements(kept: tuple[Thing, ...], parts: int) -> list[tuple[Thing, ...]]:
    """The set without each of its parts, which are as equal in length as they can be."""
    cuts = [len(kept) * at // parts for at in range(parts + 1)]
    return [kept[:start] + kept[end:] for start, end in itertools.pairwise(cuts)]


def _first(
    candidates: Sequence[tuple[Thing, ...]], fails: Fails[Thing], at_once: int
) -> tuple[Thing, ...] | None:
    for start in range(0, len(candidates), at_once):
        asked = candidates[start : start + at_once]
        for candidate, failed in zip(asked, fails(asked), strict=True):
            if failed:
                return candidate
    return None
