"""Why a frame is compiled again and again, for people: causes first, then each call. Finds nothing out.

Calls are counted from 1 here, as people count; the data counts from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from textwrap import wrap
from typing import TextIO

from rich.text import Text

from replay.findings.recompiles import Call, CauseGroup, Difference, Recompiles, Refusal
from replay.recompilation.sentences import name
from replay.recording import UserFrame
from replay.report.grid import draw_grid
from replay.report.page import Page
from replay.report.remedies import draw_remedies
from replay.report.text import clean_line, count, shorten, show_seconds
from replay.report.verdict import STYLES, draw_errors, draw_missing

CALLS = 12
"""Calls that are told one by one, unless all are asked for."""
GUARDS = 4
"""Guards of the newest entry that are shown for a call."""
GUARD = 160
"""Characters of a guard that is shown in place of values."""
WIDTH = 74
"""Characters of a line of a sentence."""


def draw_recompiles(found: Recompiles, stream: TextIO, *, verbose: int = 0, first: bool = True) -> None:
    """Write it all to the stream. verbose: 1: every guard of every entry, and every call."""
    page = Page(stream)
    if not first:
        page.gap()
    page.styled(_title(found), indent=0)
    page.line(summarise(found), indent=0)
    for one in found.calls:
        if one.limit:
            page.line(f"{one.limit} was hit in call {one.number + 1}", indent=0)
    draw_missing(page, found.outcome)
    if found.count is None:
        draw_errors(page, found.outcome)
    page.pairs([("note", one) for one in (*found.notes, *found.outcome.notes)])
    _draw_causes(page, found)
    draw_remedies(page, found, verbose=verbose)
    draw_grid(page, found.grid)
    _draw_calls(page, found, verbose=verbose)


def summarise(found: Recompiles) -> str:
    """`9 calls: compiled 8 times in 0.42 s, 1 ran uncompiled`."""
    if found.count is None:
        return "no call was made"
    told = found.count
    words = [f"compiled {count(told.compiles, 'time')} in {show_seconds(told.seconds)}"]
    words += [f"{told.hits} found compiled code"] if told.hits else []
    words += [f"{told.uncompiled} ran uncompiled"] if told.uncompiled else []
    words += [f"{told.errors} raised"] if told.errors else []
    return f"{count(len(found.calls), 'call')}: {', '.join(words)}"


def _title(found: Recompiles) -> Text:
    outcome = found.outcome
    line = Text(f"{clean_line(found.function)} under {clean_line(outcome.backend)}", style="bold")
    if found.torch:
        line.append(f", torch {clean_line(found.torch)}", style="not bold")
    return line.append(": ", style="not bold").append(outcome.status, style=STYLES[outcome.status])


def _draw_causes(page: Page, found: Recompiles) -> None:
    if not found.causes:
        return
    page.heading("Causes", f"{count(len(found.again), 'call')} came to the compiler again")
    for number, one in enumerate(found.causes, start=1):
        page.line(f"{number}. {one.cause}, {_share(one, len(found.again))}")
        for part in wrap(clean_line(one.sentence), WIDTH, break_long_words=False, break_on_hyphens=False):
            page.line(part, indent=5)
        _draw_place(page, one.place, indent=5)


def _share(one: CauseGroup, total: int) -> str:
    """`in 3 of 4 calls, alone in 2 of them`."""
    share = f"in {len(one.calls)} of {count(total, 'call')}"
    if len(one.sole) == len(one.calls):
        return share
    return f"{share}, alone in {len(one.sole)} of them" if one.sole else f"{share}, never alone"


def _draw_place(page: Page, place: UserFrame | None, *, indent: int) -> None:
    if place is not None:
        page.line(f"{place.file}:{place.line}", style="dim", indent=indent)
        if place.code:
            page.line(shorten(place.code, WIDTH - 4), indent=indent + 2)


def _draw_calls(page: Page, found: Recompiles, *, verbose: int) -> None:
    if not found.calls:
        return
    page.heading("Calls", "" if verbose else "of each, the guards of the newest entry that it did not pass")
    shown = 0
    for (fate, told), run in groupby(
        found.calls, key=lambda one: (one.fate, bool(one.refusals or one.compile_id))
    ):
        calls = list(run)
        if not told:
            page.line(f"{_numbers(calls)}: {fate}")
            continue
        room = len(calls) if verbose else max(0, CALLS - shown)
        for one in calls[:room]:
            _draw_call(page, one, verbose=verbose)
        if len(calls) > room:
            page.line(f"{_numbers(calls[room:])}: {fate} (-v shows each)", style="dim")
        shown += len(calls)


def _numbers(calls: Sequence[Call]) -> str:
    first, last = calls[0].number + 1, calls[-1].number + 1
    return f"call {first}" if first == last else f"calls {first} to {last}"


def _draw_call(page: Page, one: Call, *, verbose: int) -> None:
    what = f"{one.fate} as {one.compile_id}" if one.fate == "compiled" else one.fate
    limit = f", {one.limit} was hit" if one.limit else ""
    page.line(f"call {one.number + 1}: {what}{limit}, {show_seconds(one.seconds)}")
    if one.error:
        page.line(f"raised {one.error}", indent=4)
    shown = one.refusals if verbose else one.refusals[:1]
    for refusal in shown:
        _draw_refusal(page, refusal, verbose=verbose)
    rest = one.refusals[len(shown) :]
    if rest:
        guards = sum(len(refusal.differences) for refusal in rest)
        entries = f"{len(rest)} older {'entry' if len(rest) == 1 else 'entries'}"
        page.line(f"and {count(guards, 'guard')} of {entries}", style="dim", indent=4)


def _draw_refusal(page: Page, one: Refusal, *, verbose: int) -> None:
    made = f" of call {one.call + 1}" if one.call >= 0 else ""
    page.line(f"{one.compile_id}{made}:" + (f" {one.note}" if one.note else ""), indent=4)
    shown = one.differences if verbose else one.differences[:GUARDS]
    page.pairs(dict.fromkeys((f"    {_label(each)}", _change(each)) for each in shown))
    if verbose:
        for each in shown:
            page.line(each.guard, style="dim", indent=6)
            _draw_place(page, each.place, indent=8)
    if len(shown) < len(one.differences):
        page.line(f"and {count(len(one.differences) - len(shown), 'more guard')}", style="dim", indent=6)


def _label(one: Difference) -> str:
    return one.cause if one.dimension is None else f"{one.cause} {one.dimension}"


def _change(one: Difference) -> str:
    """`n: 3 -> 4`; without values the condition itself."""
    if not one.source or not (one.expected or one.seen):
        return shorten(one.guard, GUARD)
    return f"{name(one.source)}: {one.expected or '?'} -> {one.seen or '?'}"
