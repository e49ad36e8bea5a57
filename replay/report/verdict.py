"""An outcome, for people: the verdict first, then the error, then what explains it. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.text import Text

from replay.recording import Difference, Drift, ErrorInfo, Outcome
from replay.report.page import Page
from replay.report.text import clean, clean_line, count, headline, show_seconds, show_tuple

STYLES = {
    "passed": "bold green",
    "reproduced": "bold red",
    "different": "bold magenta",
    "missing": "bold yellow",
}

DRIFT_NAMES = 4


def draw_verdict(outcome: Outcome, stream: TextIO, *, verbose: int = 0) -> None:
    """Write the outcome to the stream.

    verbose: -1 the verdict's line alone; 0 with the error, drift in one line; 1 with frames and all drift;
    2 with the traceback as well.
    """
    page = Page(stream)
    page.styled(verdict_line(outcome), indent=0)
    if verbose < 0:
        return
    draw_missing(page, outcome)
    draw_errors(page, outcome)
    draw_reason(page, outcome)
    draw_difference(page, outcome)
    for note in outcome.notes:
        page.line(f"note: {note}", indent=0)
    if verbose > 0:
        draw_frames(page, outcome)
        draw_drift(page, outcome.drift)
    elif outcome.drift:
        page.line(f"drift: {summarise_drift(outcome.drift)}", indent=0)
    if verbose > 1 and outcome.error is not None and outcome.error.traceback:
        page.heading("Traceback")
        page.line(outcome.error.traceback.rstrip("\n"))
    draw_artifacts(page, outcome)
    if verbose > 0:
        page.gap()
    if outcome.seconds:
        page.line(summarise_seconds(outcome), style="dim", indent=0)


def verdict_line(outcome: Outcome) -> Text:
    """`reproduced: Block.forward under inductor, stage dynamo`."""
    line = Text().append(outcome.status, style=STYLES[outcome.status])
    where = f": {clean_line(outcome.function)} under {clean_line(outcome.backend)}"
    error = outcome.error or (outcome.recorded_error if outcome.status == "reproduced" else None)
    stage = f", stage {error.stage}" if error is not None else ""
    return line.append(where + stage)


def draw_errors(page: Page, outcome: Outcome) -> None:
    """The error as a user sees it. Of a different one both, each under its name."""
    if outcome.status == "different":
        _draw_error(page, "recorded", outcome.recorded_error)
        _draw_error(page, "here", outcome.error)
        page.gap()
        if _same_text(outcome):
            page.line("(the same text; the failures differ in their fingerprints)", indent=0)
    elif outcome.status == "passed":
        if outcome.recorded_error is not None:
            page.line(f"recorded: {_one_line(outcome.recorded_error)}", indent=0)
    elif outcome.status == "missing":
        # what is raised without the missing part says more about the placeholder than about the failure
        if outcome.recorded_error is not None:
            page.line(f"recorded: {_one_line(outcome.recorded_error)}", indent=0)
    elif outcome.error is not None:
        page.line(_full_text(outcome.error), indent=0)


def draw_reason(page: Page, outcome: Outcome) -> None:
    """Why a frame was compiled again; where it was not, why it was when it was recorded."""
    label = "compiled again" if outcome.reason else "recorded: compiled again"
    for at, line in enumerate((outcome.reason or outcome.recorded_reason).splitlines()):
        page.line(f"{label}: {clean_line(line)}" if at == 0 else clean_line(line), indent=0 if at == 0 else 2)


def draw_difference(page: Page, outcome: Outcome) -> None:
    """Wrong numbers in a table: what differs, where, and by how much."""
    found, compared = outcome.difference, outcome.comparison
    if found is None:
        return
    if compared is None or compared.where != found.where:
        rows = _number_rows(found, "float64, or uncompiled where that cannot be run")
    elif compared.unlike is not None:
        rows = [("compiled", compared.unlike[0]), ("uncompiled", compared.unlike[1])]
    else:
        rows = _number_rows(found, compared.reference)
    if found.place is not None:
        rows.append(("computed in", f"{found.place[0]}:{found.place[1]}, {found.place[2]}"))
    if outcome.status != "different":  # there, a blank line stands before it already
        page.gap()
    page.styled(Text("Difference", style="bold"), indent=0)
    page.pairs([("what", found.where), *rows])
    page.gap()


def _number_rows(found: Difference, reference: str) -> list[tuple[str, str]]:
    return [
        ("largest at", show_tuple(found.index)),
        ("compiled", f"{found.compiled:.6g}"),
        ("uncompiled", f"{found.uncompiled:.6g}"),
        ("reference", f"{found.reference:.6g} ({reference})"),
        ("error", f"{found.error:.6g} (root mean square, from the reference)"),
        ("baseline", f"{found.baseline:.6g} (the same, of uncompiled code)"),
        ("tolerance", f"{found.tolerance:g}"),
    ]


def _draw_error(page: Page, label: str, error: ErrorInfo | None) -> None:
    page.heading(label, "no failure" if error is None else f"stage {error.stage}, {error.fingerprint}")
    if error is not None:
        page.line(_full_text(error))


def _full_text(error: ErrorInfo) -> str:
    return clean(f"{error.type}: {error.message}".rstrip())


def _one_line(error: ErrorInfo) -> str:
    return clean_line(f"stage {error.stage}, {error.type}: {headline(error.message)}")


def _same_text(outcome: Outcome) -> bool:
    here, recorded = outcome.error, outcome.recorded_error
    if here is None or recorded is None:
        return False
    return (here.type, here.message) == (recorded.type, recorded.message)


def draw_missing(page: Page, outcome: Outcome) -> None:
    """What the recording or this machine lacks; with any other status it was not needed."""
    label = "missing" if outcome.status == "missing" else "not loaded, and not needed"
    for one in outcome.missing:
        kind = f" ({one.type})" if one.type else ""
        page.line(f"{label}: {one.name}{kind}: {one.reason}", indent=0)


def draw_artifacts(page: Page, outcome: Outcome) -> None:
    """Where the files are that the replay was asked to keep."""
    kept = outcome.artifacts
    if kept is not None:
        page.line(
            f"artifacts: {kept.directory} ({count(len(kept.files), 'file')}; index.txt lists them)", indent=0
        )


def draw_frames(page: Page, outcome: Outcome) -> None:
    """What was compiled, one row for each code object."""
    if outcome.frames:
        page.heading("Frames")
        page.table(
            ("function", "line", "compiles", "breaks", "seconds"),
            [
                (
                    frame.function,
                    f"{frame.file}:{frame.line}",
                    str(frame.compiles),
                    str(frame.graph_breaks),
                    f"{frame.seconds:.2f}",
                )
                for frame in outcome.frames
            ],
            right=(2, 3, 4),
        )


def draw_drift(page: Page, drift: Iterable[Drift]) -> None:
    """Every difference from the recording's environment."""
    rows = [(one.name, one.recorded, one.here) for one in drift]
    if rows:
        page.heading("Drift", "what differs from the recording")
        page.table(("what", "recorded", "here"), rows)


def summarise_drift(drift: tuple[Drift, ...]) -> str:
    """One line: how many things differ, and the first of them by name."""
    names = ", ".join(clean_line(one.name) for one in drift[:DRIFT_NAMES])
    more = f" and {len(drift) - DRIFT_NAMES} more" if len(drift) > DRIFT_NAMES else ""
    verb = "differs" if len(drift) == 1 else "differ"
    return f"{count(len(drift), 'thing')} {verb} from the recording: {names}{more} (-v lists them)"


def summarise_seconds(outcome: Outcome) -> str:
    """`load 0.12 s, compile 1.5 s, run 0.003 s, total 1.7 s`, in the order of the outcome."""
    return ", ".join(f"{name} {show_seconds(seconds)}" for name, seconds in outcome.seconds.items())
