"""What the compiler made of a frame, for people. Finds nothing out."""

from __future__ import annotations

from collections import Counter
from typing import TextIO

from rich.text import Text

from replay.findings.explanation import ExplainedFrame, Explanation, Graph, GraphBreak, GraphInput
from replay.recording import ErrorInfo
from replay.report.annotation import draw_annotated, place_of
from replay.report.conditions import draw_guards
from replay.report.page import Page
from replay.report.text import body, clean_line, count, show_seconds
from replay.report.verdict import STYLES, draw_missing

FATES = {
    "compiled": "compiled",
    "skipped": "left alone by Dynamo: it runs uncompiled",
    "raised": "failed to compile",
    "suppressed": "failed to compile; suppress_errors hid it, and it runs uncompiled",
    "graph_break": "runs uncompiled, because of a graph break",
    "refused": "not tried: the stance lets nothing be compiled again",
    "traced": "traced for an export",
}
"""What became of a frame, in words."""

INPUTS = 12
INLINED = 8
LINES = 16


def draw_explanation(explained: Explanation, stream: TextIO, *, verbose: int = 0) -> None:
    """Write it all to the stream. verbose: 1: every input, guard and inlined function."""
    page = Page(stream)
    page.styled(_title(explained), indent=0)
    outcome = explained.outcome
    if outcome.status == "missing":
        draw_missing(page, outcome)
    if outcome.status == "missing" and not explained.frames:
        return
    page.line(summarise(explained), indent=0)
    page.pairs([("note", note) for note in (*explained.notes, *outcome.notes)])
    for frame in explained.frames:
        _draw_frame(page, explained, frame, verbose=verbose)
    _draw_later_error(page, explained)
    page.pairs([("not known", one) for one in explained.unknown])


def summarise(explained: Explanation) -> str:
    """`2 frames, 2 graphs, 7 ops, 1 graph break, 42 guards`."""
    graphs = explained.graphs
    return ", ".join(
        (
            count(len(explained.frames), "frame"),
            count(len(graphs), "graph"),
            count(sum(len(one.ops) for one in graphs), "op"),
            count(len(explained.breaks), "graph break"),
            count(sum(len(one.guards) for one in explained.frames), "guard"),
        )
    )


def _title(explained: Explanation) -> Text:
    status = explained.outcome.status
    line = Text(f"{clean_line(explained.function)} under {clean_line(explained.backend)}", style="bold")
    if explained.torch:
        line.append(f", torch {clean_line(explained.torch)}", style="not bold")
    return line.append(": ", style="not bold").append(status, style=STYLES[status])


def _draw_frame(page: Page, explained: Explanation, frame: ExplainedFrame, *, verbose: int) -> None:
    number = "frame" if frame.compile_id is None else f"frame {frame.compile_id}"
    page.heading(number, frame.function)
    page.line(f"{frame.file}:{frame.line}")
    page.line(_fate(frame))
    if frame.fate == "skipped" and not (frame.graphs or frame.breaks or verbose):
        return
    draw_annotated(page, explained, frame, verbose=verbose)
    for graph in frame.graphs:
        _draw_graph(page, graph, verbose=verbose)
    for position, one in enumerate(frame.breaks):
        _draw_break(page, explained, frame, one, position)
    _draw_error(page, frame)
    _draw_inlined(page, frame, verbose=verbose)
    draw_guards(page, frame.guards, verbose=verbose)


def _fate(frame: ExplainedFrame) -> str:
    resumes = f"; goes on with {frame.resume_of} after a graph break" if frame.resume_of else ""
    return f"{FATES.get(frame.fate, frame.fate)}, {show_seconds(frame.seconds)}{resumes}"


def _draw_graph(page: Page, graph: Graph, *, verbose: int) -> None:
    title = f"graph {graph.number}" if graph.finished else "graph so far (tracing failed)"
    page.gap()
    ins, outs = count(len(graph.inputs), "input"), count(len(graph.outputs), "output")
    page.line(f"{title}: {ins}, {count(len(graph.ops), 'op')}, {outs if graph.finished else 'not finished'}")
    counted = Counter(one.target for one in graph.ops)
    rows = [
        ("ops", ", ".join(f"{name} {times}" if times > 1 else name for name, times in counted.most_common()))
    ]
    shown = graph.inputs if verbose else graph.inputs[:INPUTS]
    rows += [("in", _input(one)) for one in shown]
    if len(shown) < len(graph.inputs):
        rows.append(("", f"... {len(graph.inputs) - len(shown)} more (-v lists them)"))
    rows += [("out", _input(one)) for one in graph.outputs]
    rows += [
        (
            "size",
            f"{one.name} in {one.range or 'a range unknown'}, here {one.hint or 'unknown'}: {', '.join(one.sources)}",
        )
        for one in graph.symbols
    ]
    page.pairs([(f"  {name}", value) for name, value in rows if value])


def _input(one: GraphInput) -> str:
    """`float32[3, 4] cpu, parameter, from L['self'].weight`."""
    if one.tensor is not None:
        what = f"{one.tensor.dtype}[{', '.join(one.tensor.shape)}] {one.tensor.device}"
    else:
        what = f"{one.type or 'unknown'} {one.value}".strip()
    words = [what]
    if one.kind not in ("tensor", "number", "other"):
        words.append(one.kind)
    elif one.tensor is not None and one.tensor.requires_grad:
        words.append("requires_grad")
    return ", ".join([*words, one.source or one.name])


UNEXPLAINED = {"generic_jump": "a branch on a value that is known only when the code runs"}
"""What torch's own word means, where it says nothing else."""


def _draw_break(
    page: Page, explained: Explanation, frame: ExplainedFrame, one: GraphBreak, position: int
) -> None:
    where = one.stack[-1] if one.stack else None
    place = "" if where is None else f" at {place_of(where.file, where.line, frame.file)} in {where.function}"
    page.gap()
    page.styled(Text(clean_line(f"graph break {position + 1}{place}"), style="bold yellow"))
    if where is not None and where.code:
        page.line(where.code, indent=6)
    meaning = next((text for word, text in UNEXPLAINED.items() if one.kind.startswith(word)), "")
    rows = [("  kind", one.kind), ("  why", one.explanation or meaning)]
    rows += [("  hint", hint) for hint in one.hints]
    rows += [
        ("  called at", f"{place_of(at.file, at.line, frame.file)}: {at.code}")
        for at in reversed(one.stack[:-1])
    ]
    rows.append(("  so", _consequence(explained, frame, one)))
    page.pairs([(name, value) for name, value in rows if value])


def _consequence(explained: Explanation, frame: ExplainedFrame, one: GraphBreak) -> str:
    """What runs uncompiled because of a break, as far as this replay has seen it."""
    if one.whole_frame:
        return "the whole function runs uncompiled; what it calls is compiled on its own"
    at = one.stack[0] if one.stack else None
    line = "what broke" if at is None else f"what broke in line {at.line}"
    later = [
        other
        for other in explained.frames[explained.frames.index(frame) + 1 :]
        if at is not None and other.file == at.file and other.function.endswith(f"_at_{at.line}")
    ]
    if not later:
        return f"{line} runs uncompiled; nothing after it was compiled in this replay"
    numbers = " or ".join(f"frame {other.compile_id}" for other in later)
    return f"{line} runs uncompiled; {numbers} goes on after it"


def _draw_error(page: Page, frame: ExplainedFrame) -> None:
    error = frame.error
    if error is None:
        return
    page.gap()
    page.styled(Text(clean_line(f"failed in stage {error.stage}: {error.type}"), style="bold red"))
    page.pairs([("  error", _text(error))])
    for at in error.user_frames:
        page.line(f"{place_of(at.file, at.line, frame.file)} in {at.function}", indent=4)
        if at.code:
            page.line(at.code, indent=6)


def _text(error: ErrorInfo) -> str:
    """What the error says, without torch's general advice."""
    lines = [line.strip() for line in body(error.message)]
    more = [f"... {len(lines) - LINES} more lines (--json has all)"] if len(lines) > LINES else []
    return "\n".join(lines[:LINES] + more)


def _draw_later_error(page: Page, explained: Explanation) -> None:
    """An error that came when everything was compiled, or that ended the process."""
    error = explained.outcome.error
    known = [one.error.fingerprint for one in explained.frames if one.error is not None]
    if error is None or error.fingerprint in known or error.stage == "graph_break":
        return
    page.heading("Failure", f"stage {error.stage}: {error.type}")
    page.pairs([("error", _text(error))])


def _draw_inlined(page: Page, frame: ExplainedFrame, *, verbose: int) -> None:
    users = [one for one in frame.inlined if not one.of_torch]
    torchs = [one for one in frame.inlined if one.of_torch]
    if not frame.inlined:
        return
    page.gap()
    page.line(f"inlined: {count(len(users), 'function')}, and {len(torchs)} of torch's own")
    shown = frame.inlined if verbose else users[:INLINED]
    page.pairs(
        (f"  {one.function}", _times(place_of(one.file, one.line, frame.file), one.times)) for one in shown
    )
    hidden = len(frame.inlined) - len(shown)
    if hidden and not verbose and len(users) > INLINED:
        page.line(f"... {hidden} more (-v lists them)", style="dim", indent=4)


def _times(place: str, times: int) -> str:
    return place + (f", {times} times" if times > 1 else "")
