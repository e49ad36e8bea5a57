"""The sections of PyTorch's form for torch.compile bugs, filled in. Texts alone; nothing is replayed here.

The form is .github/ISSUE_TEMPLATE/pt2-bug-report.yml of pytorch/pytorch: "Describe the bug" with the ablation and a
minimal reproducer, "Error logs", "Versions".
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator
from pathlib import PurePath

from replay.filing.markdown import fence, shortened, span, without_people
from replay.filing.versions import versions
from replay.findings.export import Export
from replay.findings.issue import Attachment
from replay.findings.triage import Triage
from replay.recording import Manifest, UserFrame
from replay.report.text import headline, short_type, shorten, show_size
from replay.report.triage import draw_triage

LONGEST = 20_000
"""Characters of one block: GitHub takes 65,536 for a whole issue."""
TITLE = 100

_EVENTS = {
    "graph_break": "breaks the graph",
    "accuracy": "computes something else than uncompiled code does",
    "success": "was recorded without a failure",
}
_WAYS = {
    "compile": "torch.compile",
    "export": "torch.export",
    "dynamo_export": "torch._dynamo.export",
    "aot_compile": "torch.compile(...).aot_compile",
    "compiled_autograd": "compiled autograd",
}


def title(manifest: Manifest) -> str:
    """One line for the issue's title."""
    way = _WAYS[manifest.compile.entry]
    if manifest.error is None:
        return shorten(f"[{way}] {manifest.frame.function} is compiled again: {manifest.reason}", TITLE)
    said = headline(manifest.error.message)
    kind = short_type(manifest.error.inner_type or manifest.error.type)
    return shorten(f"[{way}] {said if said.startswith(kind) else f'{kind}: {said}'}", TITLE)


def fill(
    manifest: Manifest,
    attachment: Attachment,
    triage: Triage | None,
    export: Export | None,
    no_export: str = "",
) -> str:
    """The Markdown. `no_export`: why there is no verified file."""
    parts = [
        "### 🐛 Describe the bug",
        *_description(manifest),
        *_ablation(triage),
        *_reproducer(manifest, attachment, export, no_export),
        "### Error logs",
        *_logs(manifest),
        "### Versions",
        "From the recording; fields that it does not have are said to be so.",
        fence(without_people(versions(manifest)), "text"),
    ]
    return "\n\n".join(parts) + "\n"


def _description(manifest: Manifest) -> Iterator[str]:
    frame, error = manifest.frame, manifest.error
    how = f"under {_WAYS[manifest.compile.entry]} with the backend {span(without_people(manifest.compile.backend))}"
    settings = _settings(manifest)
    how += f" ({settings})" if settings else ""
    what = f"{span(frame.function)} ({_place(frame.file, frame.first_line)})"
    if error is None:
        yield f"{what} is compiled again {how}. The guard that failed:"
        yield fence(without_people(manifest.reason), "text")
        return
    yield f"{what} {_EVENTS.get(manifest.event, 'fails')} {how}, stage {span(error.stage)}:"
    yield fence(without_people(f"{short_type(error.type)}: {headline(error.message)}"), "text")
    if error.user_frames:
        yield "The program's own lines, the innermost last:"
        yield fence("\n".join(_line(one) for one in error.user_frames), "text")


def _settings(manifest: Manifest) -> str:
    compiled = manifest.compile
    found = ["fullgraph=True"] if compiled.fullgraph else []
    found += [] if compiled.dynamic is None else [f"dynamic={compiled.dynamic}"]
    found += [f"{key}={value!r}" for key, value in {**compiled.options, **manifest.config}.items()]
    return " ".join(span(without_people(shorten(one, 80))) for one in found)


def _place(file: str, line: int) -> str:
    return span(f"{PurePath(file).name}:{line}")


def _line(frame: UserFrame) -> str:
    return f"{PurePath(frame.file).name}:{frame.line} in {frame.function}: {frame.code}"


def _ablation(triage: Triage | None) -> Iterator[str]:
    """The table of `triage`, as it prints it."""
    yield "**Ablation by backend**"
    if triage is None:
        yield "Not made."
        return
    stream = io.StringIO()
    draw_triage(triage, stream)
    yield fence(without_people(stream.getvalue()), "text")


def _reproducer(
    manifest: Manifest, attachment: Attachment, export: Export | None, no_export: str
) -> Iterator[str]:
    yield "**Minimal reproducer**"
    if export is not None and export.verified and len(export.text) <= LONGEST:
        yield (
            f"Made of the recording, and run in a process of its own with torch {span(export.check.torch)}: "
            f"its failure has the recorded fingerprint ({span(export.check.fingerprint)})."
        )
        yield fence(without_people(export.text), "python")
    else:
        yield from _replayed(no_export or "the file is too long for an issue")
    yield f"The recorded frame is attached as {span(attachment.name)} ({show_size(attachment.size)}); to replay it:"
    version = manifest.writer.rpartition(" ")[2]
    yield fence(
        f"pip install 'torch-replay>={version}'\npython -m replay {shlex.quote(attachment.name)}", "sh"
    )


def _replayed(why: str) -> Iterator[str]:
    yield "None as a file of its own:"
    yield fence(without_people(why), "text")


def _logs(manifest: Manifest) -> Iterator[str]:
    error = manifest.error
    if error is None:
        yield fence(without_people(manifest.reason), "text")
        return
    message = f"{error.type}: {error.message}".rstrip()
    yield fence(shortened(without_people(message), LONGEST), "text")
    if error.traceback:
        above = error.traceback.rstrip().removesuffix(message)
        yield "<details><summary>Traceback</summary>"
        yield fence(shortened(without_people(above), LONGEST), "text")
        yield "</details>"
