"""The words around an exported program: its docstring, and the expected failure as a comment. Texts alone."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import PurePath

from replay._version import __version__
from replay.exporting.expressions import WIDTH
from replay.findings.export import Check, Program
from replay.recording import Manifest

LINES = 16
"""Of the expected error's message."""
_ADVICE = ("from user code:", "Set TORCHDYNAMO_VERBOSE=1", "For more details about this graph break")


def head(manifest: Manifest, program: Program, check: Check | None) -> list[str]:
    """The lines of the docstring. `check`: None while the file is still to be run."""
    frame, made = manifest.frame, manifest.environment
    silent = {"recompile": "A recompilation", "success": "A success"}
    kind = silent[manifest.event] if manifest.error is None else _last(manifest.error.type)
    what = f"{kind} of {frame.function} under torch.compile, made of a recording."
    where = f"{PurePath(frame.file).name}, line {frame.first_line}"
    lines = [printable(what), "", *_wrapped(_verdict(check))]
    lines += _wrapped(
        f"Recorded from {where} with Python {made.python} and torch {made.torch}; "
        f"exported by torch-replay {__version__}."
    )
    notes = list(program.notes)
    if program.seeded:
        notes.append("random values stand in for the recorded ones")
    for note in notes:
        lines += _wrapped(f"Note: {note}.")
    return lines


def foot(manifest: Manifest) -> list[str]:
    """The lines of the comment at the end: what is expected."""
    error = manifest.error
    if error is None and manifest.event == "success":
        return ["Expected: the frame compiles and runs."]
    if error is None:
        told = "Expected: the frame is compiled again (TORCH_LOGS=recompiles shows it), because this failed:"
        return [told, "", *_lines(manifest, manifest.reason.partition("\n")[0].partition("  #")[0])]
    silent = {
        "graph_break": "Expected: no error, but this graph break (TORCH_LOGS=graph_breaks shows it):",
        "accuracy": "Expected: numbers that differ from those of uncompiled code. When it was recorded:",
    }
    told = silent.get(manifest.event, "Expected:")
    if manifest.event == "failure" and manifest.config.get("dynamo.suppress_errors"):
        told = "Expected: no error, because suppress_errors hides this one (torch logs it):"
    return [told, "", *_lines(manifest, f"{error.type}: {error.message}")]


def printable(text: str) -> str:
    """One line without control characters and marks that reorder text."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text.expandtabs(4))


def _lines(manifest: Manifest, message: str) -> list[str]:
    """A message's lines, up to where torch begins to quote the program and to give advice.

    The program's files stand without their directories, which may be named after a person.
    """
    for name in sorted(manifest.sources, key=len, reverse=True):
        message = message.replace(name, PurePath(name).name)
    text = message.rstrip().split("\n")
    end = next((at for at, line in enumerate(text) if line.strip().startswith(_ADVICE)), len(text))
    lines = [part for line in text[:end] for part in _folded(printable(line.rstrip()))]
    while lines and lines[-1].strip() in ("", "Developer debug context:"):
        lines.pop()
    return lines[:LINES] + (["..."] if len(lines) > LINES else [])


def _folded(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())] + "  "
    return textwrap.wrap(line, WIDTH - 2, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _verdict(check: Check | None) -> str:
    if check is None:
        return "Being checked."
    if not check.same:
        return f"NOT VERIFIED: {printable(check.reason)}."
    return (
        f"Verified with torch {check.torch}: the failure of this file has the recorded fingerprint, "
        f"{check.fingerprint}, and comes in a process of its own that has no replay."
    )


def _wrapped(text: str) -> Sequence[str]:
    return textwrap.wrap(printable(text), WIDTH, break_long_words=False, break_on_hyphens=False)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
