"""An ablation, for people: the settings that the failure needs, those that it does not, how to set just these."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TextIO

from replay.findings.ablation import Ablation, Setting
from replay.report.page import Page
from replay.report.setup import python_lines, variables
from replay.report.text import clean_line, count, headline, short_type, show_seconds, show_value
from replay.report.verdict import draw_verdict, verdict_line


def draw_ablation(ablation: Ablation, stream: TextIO, *, verbose: int = 0) -> None:
    """Write the ablation to the stream. `verbose`: -1 the first line alone.

    Of a failure that did not come back, the replay's verdict, and that there was nothing to ablate.
    """
    outcome = ablation.outcome
    if outcome.status != "reproduced":
        draw_verdict(outcome, stream, verbose=verbose)
        if verbose >= 0:
            Page(stream).line(f"nothing to ablate: {_WHY[outcome.status]}", indent=0)
        return
    page = Page(stream)
    line = verdict_line(outcome)
    page.styled(line.append(f", needs {_how_many(ablation)}"), indent=0)
    if verbose < 0:
        return
    if outcome.error is not None:
        page.line(f"{short_type(outcome.error.type)}: {headline(outcome.error.message)}", indent=0)
    _draw_settings(page, ablation)
    _draw_commands(page, ablation)
    page.gap()
    for note in _notes(ablation):
        page.line(f"note: {note}", indent=0)
    page.line(_tally(ablation), style="dim", indent=0)


_WHY = {
    "passed": "with all its settings the recorded failure does not come back here",
    "different": "with all its settings another failure than the recorded one comes here",
    "missing": "the replay lacks something",
}


def _how_many(ablation: Ablation) -> str:
    total = len(ablation.needed) + len(ablation.not_needed)
    if not total:
        return "no setting: the recording has none that differs from a fresh process"
    if not ablation.needed:
        return f"none of the {count(total, 'recorded setting')}"
    return f"{len(ablation.needed)} of {count(total, 'recorded setting')}"


def _draw_settings(page: Page, ablation: Ablation) -> None:
    if ablation.needed:
        alone = "the failure comes with these alone, and without any one of them it does not"
        page.heading("Needed", alone if ablation.stable else "")
        _draw_table(page, ablation.needed)
    if ablation.not_needed:
        page.heading("Not needed")
        _draw_table(page, ablation.not_needed)


def _draw_table(page: Page, settings: Sequence[Setting]) -> None:
    page.pairs((one.name, f"{show_value(one.recorded, 80)}  (without: {_default(one)})") for one in settings)


def _default(one: Setting) -> str:
    return "not set" if one.name.startswith("env.") else show_value(one.default, 80)


def _draw_commands(page: Page, ablation: Ablation) -> None:
    if ablation.needed:
        page.heading("In a program")
        for assignment in variables(ablation.needed):
            name, _, value = assignment.partition("=")
            page.line(f"export {name}={shlex.quote(value)}")
        for line in python_lines(ablation.needed, ablation.outcome):
            page.line(line)
    if ablation.not_needed:
        page.heading("Replay with just these" if ablation.needed else "Replay without them")
        page.line(command_line(ablation))


def command_line(ablation: Ablation) -> str:
    """The replay with the needed settings alone, and with what was chosen for every trial."""
    words = ["python", "-m", "replay", ablation.bundle]
    for name, value in ablation.options.items():
        option = f"--{name.replace('_', '-')}"
        if name == "without":
            continue
        if isinstance(value, Mapping):
            words += [word for key, item in value.items() for word in (option, f"{key}={item}")]
        elif isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
        elif isinstance(value, (list, tuple)):
            words += [word for item in value for word in (option, str(item))]
        else:
            words += [option, str(value)]
    return shlex.join([*words, "--without", ",".join(ablation.without)])


def _notes(ablation: Ablation) -> list[str]:
    notes = [clean_line(one) for one in ablation.notes]
    if not ablation.stable:
        notes.insert(
            0,
            "with the needed settings the failure came once and then did not: it does not depend on settings alone",
        )
    return notes


def _tally(ablation: Ablation) -> str:
    return f"{count(ablation.trials, 'trial')} in {show_seconds(ablation.seconds)}"
