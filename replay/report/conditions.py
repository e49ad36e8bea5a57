"""The guards of a frame, for people: how many of which kind, and the first of each. Decides nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from replay.findings.explanation import GuardInfo
from replay.report.page import Page
from replay.report.text import clean_line

FIRST = 3
"""Guards of a kind that are shown unless all are asked for."""

_KEYS = re.compile(r"DispatchKeySet\([^)]*\), ")
"""A part of torch's condition on a tensor that says little and is long."""


def draw_guards(page: Page, guards: Sequence[GuardInfo], *, verbose: int) -> None:
    """Grouped by kind, in the order of torch's check; verbose: all of them, whole, with their lines."""
    if not guards:
        return
    page.gap()
    page.line(f"guards: {len(guards)}" + ("" if verbose else " (-v shows all of them)"))
    if verbose:
        _draw_all(page, guards)
        return
    of_values = [one for one in guards if one.source or one.place is not None]
    state = list(dict.fromkeys(one.kind for one in guards if not (one.source or one.place is not None)))
    for kind, members in _by_kind(of_values).items():
        page.line(f"{kind}{f' {len(members)}' if len(members) > 1 else ''}", indent=4)
        page.pairs([_row(one) for one in members[:FIRST]])
        if len(members) > FIRST:
            page.line(f"... {len(members) - FIRST} more", style="dim", indent=6)
    if state:
        page.pairs([("  of the process", ", ".join(state))])


def _by_kind(guards: Sequence[GuardInfo]) -> dict[str, list[GuardInfo]]:
    kinds: dict[str, list[GuardInfo]] = defaultdict(list)
    for one in guards:
        kinds[one.kind].append(one)
    return dict(kinds)


def _row(one: GuardInfo) -> tuple[str, str]:
    """The line that made it necessary, and the condition; of one on an object's identity or type, the object."""
    line = "    line ?" if one.place is None else f"    line {one.place.line}"
    codes = one.code or (one.source,)
    if codes[0].startswith("___check") and one.source:
        return line, one.source
    shown = codes[:1] if codes[0].startswith("hasattr(") else codes[:FIRST]
    more = [f"... and {len(codes) - len(shown)} more"] if len(shown) < len(codes) else []
    return line, "\n".join([*(_KEYS.sub("", one) for one in shown), *more])


def _draw_all(page: Page, guards: Sequence[GuardInfo]) -> None:
    for kind, members in _by_kind(guards).items():
        page.line(f"{kind}{f' {len(members)}' if len(members) > 1 else ''}", indent=4)
        for one in members:
            for code in one.code or (one.source,):
                page.line(clean_line(code), indent=6)
            if one.place is not None:
                page.line(f"for {one.place.file}:{one.place.line}  {one.place.code}", style="dim", indent=8)
