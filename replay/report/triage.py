"""A triage, for people: one row for each backend, then the verdict. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.text import Text

from replay.findings.triage import Bisected, Rung, Triage
from replay.recording import ErrorInfo
from replay.report.page import INDENT, Page
from replay.report.text import clean_line, headline, short_type, shorten, show_seconds
from replay.report.verdict import STYLES, draw_drift, summarise_drift

TITLES = ("backend", "status", "stage", "seconds", "graphs", "breaks")
NUMBERS = (3, 4, 5)
NAME_WIDTH = 26  # of torch's longest rung; six columns then fit into 80
GAP = 2


def draw_triage(triage: Triage, stream: TextIO, *, verbose: int = 0) -> None:
    """Write a triage to the stream.

    verbose: -1 the sentence alone; 0 with the table; 1 with all notes and all drift.
    """
    page = Page(stream)
    if verbose < 0:
        page.line(triage.sentence.replace("\n", " "), indent=0)
        return
    page.heading("Triage", f"{triage.function}, {_recorded(triage)}")
    draw_rungs(page, triage.rungs)
    page.heading("Verdict", triage.fault.replace("_", " "))
    page.pairs([("", triage.sentence)])
    if triage.place is not None and triage.place.code:
        page.line(f"{triage.place.line}: {triage.place.code}", style="dim", indent=3 * INDENT)
    page.gap()
    _draw_notes(page, triage, verbose)


def draw_rungs(page: Page, rungs: Sequence[Rung]) -> None:
    """The table: below a rung that fails, in a line of its own, how; below one that was not run, why."""
    cells = [TITLES, *(_cells(rung) for rung in rungs)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(TITLES))]
    page.styled(_row(TITLES, widths, "dim", "dim"))
    for rung, row in zip(rungs, cells[1:], strict=True):
        page.styled(_row(row, widths, "", STYLES.get(rung.status, "bold yellow")))
        for line in _explained(rung):
            page.line(shorten(line, page.width - 3 * INDENT), style="dim", indent=3 * INDENT)


def _cells(rung: Rung) -> tuple[str, ...]:
    name = clean_line(rung.name)
    short = name if len(name) <= NAME_WIDTH else "..." + name[3 - NAME_WIDTH :]
    if rung.status == "refused":
        return short, "refused", "", "", "", ""
    stage = rung.error.stage if rung.error is not None else ""
    return short, rung.status, stage, f"{rung.seconds:.1f}", str(rung.graphs), str(rung.breaks)


def _row(cells: Sequence[str], widths: Sequence[int], style: str, second: str) -> Text:
    line = Text()
    for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        padded = cell.rjust(width) if at in NUMBERS else cell.ljust(width)
        line.append(padded + " " * GAP, style=second if at == 1 else style)
    return line


def _explained(rung: Rung) -> Iterable[str]:
    if rung.error is not None:
        yield _error(rung.error)
    if rung.reason:
        yield f"compiled again: {rung.reason}"
    if rung.status == "missing":
        for one in rung.missing:
            yield f"missing: {one.name}: {one.reason}"
    if rung.refused:
        yield rung.refused


def _error(error: ErrorInfo) -> str:
    kind, said = short_type(error.inner_type or error.type), headline(error.message)
    return said if said.startswith(kind) else f"{kind}: {said}"


def _recorded(triage: Triage) -> str:
    error = triage.recorded_error
    if error is None:
        return f"recorded: {triage.event}"
    return f"recorded: stage {error.stage}, {short_type(error.type)}"


def _draw_notes(page: Page, triage: Triage, verbose: int) -> None:
    rows = [("note", note) for note in triage.notes]
    for note, names in _shared(triage.rungs).items():
        if verbose > 0:
            rows.append(("note", f"{note} ({', '.join(names)})"))
        elif len(names) > 1:  # what one replay alone noted explains that replay, hardly the verdict
            rows.append(("note", note))
    if triage.bisected is not None:
        rows.append(("bisected", _search(triage.bisected)))
    if verbose == 0 and triage.drift:
        rows.append(("drift", summarise_drift(triage.drift)))
    page.pairs([*rows, ("total", show_seconds(triage.seconds))])
    if verbose > 0:
        draw_drift(page, triage.drift)


def _shared(rungs: Iterable[Rung]) -> dict[str, list[str]]:
    """What the replays noted, each once, with the rungs that noted it; other tries of one replay are left out."""
    found: dict[str, list[str]] = {}
    for rung in rungs:
        for note in rung.notes:
            if not note.startswith("tried too"):
                found.setdefault(note, []).append(rung.name)
    return found


def _search(found: Bisected) -> str:
    took = f"{found.steps} replays in {show_seconds(found.seconds)}"
    if found.gave_up:
        return f"{found.gave_up}; {took}"
    if found.subsystem is None:
        return f"no pass and no lowering alone makes the difference; {took}"
    number = "" if found.number is None else f", number {found.number}"
    names = ", ".join(dict.fromkeys(name for name in (found.what, found.operator) if name))
    return f"{found.subsystem}{number}" + (f" ({names})" if names else "") + f"; {took}"
