"""What is inside a bundle, for people. Runs no code of it, reads no value, imports no torch.

The order is a maintainer's: what failed, where, on what, compiled how, in which surroundings, what it weighs,
what is missing, how to replay it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Protocol, TextIO

from replay.recording import ErrorInfo, Manifest, UserFrame
from replay.report import surroundings
from replay.report.excerpt import CONTEXT, draw_excerpt
from replay.report.inputs import draw_inputs
from replay.report.page import Page
from replay.report.text import body, count, headline, short_type, show_size, show_value
from replay.report.trust import draw_standing
from replay.report.values import draw_values

if TYPE_CHECKING:
    from replay.trust import Standing

MESSAGE_LINES = 24
STACK_FRAMES = 12
ENTRIES = 6


class Inspectable(Protocol):
    """What an inspection reads of a `replay.bundle.Bundle`."""

    @property
    def path(self) -> str:
        """The name that it was opened by."""

    @property
    def size(self) -> int:
        """The file's, in bytes."""

    @property
    def manifest(self) -> Manifest:
        """What the bundle says of itself."""

    def source_for(self, filename: str) -> str | None:
        """The text of the file that code objects call `filename`; None if the bundle does not have it."""


def draw_inspection(bundle: Inspectable, stream: TextIO, *, standing: Standing | None = None) -> None:
    """Write the whole report to the stream: with colour on a terminal, plain elsewhere.

    `standing`: who vouches for the bundle here, if that is to be told.
    """
    page, manifest = Page(stream), bundle.manifest
    made = f"{show_size(bundle.size)}, recorded {manifest.created} by {manifest.writer}"
    page.heading(bundle.path, made)
    if standing is not None:
        draw_standing(page, standing)
    draw_failure(page, manifest)
    draw_frame(page, bundle)
    draw_stack(page, manifest.error)
    draw_inputs(page, manifest)
    draw_values(page, manifest)
    draw_compilation(page, manifest)
    surroundings.draw_config(page, manifest)
    surroundings.draw_state(page, manifest)
    surroundings.draw_environment(page, manifest)
    draw_sizes(page, bundle)
    draw_missing(page, manifest)
    draw_commands(page, bundle)


def draw_failure(page: Page, manifest: Manifest) -> None:
    """The error, the line that says most first; torch's general advice is left to `--json`."""
    error = manifest.error
    if error is None:
        _draw_event(page, manifest)
        return
    name = {"graph_break": "Graph break", "accuracy": "Wrong numbers"}.get(manifest.event, "Failure")
    page.heading(name, f"{error.stage}: {error.type}")
    first, lines = headline(error.message), body(error.message)
    page.line(first or "(no message)", style="bold red")
    place = next((place for place, line in enumerate(lines[:2]) if line.strip() == first), None)
    rest = lines if place is None else lines[:place] + lines[place + 1 :]
    for line in rest[:MESSAGE_LINES]:
        page.line(line)
    if len(rest) > MESSAGE_LINES:
        page.line(f"... {count(len(rest) - MESSAGE_LINES, 'more line')} (--json has all)", style="dim")
    if error.inner_type is not None and not first.startswith(short_type(error.inner_type)):
        page.line(f"raised by: {error.inner_type}", style="dim")


def _draw_event(page: Page, manifest: Manifest) -> None:
    """What the frame was recorded for, where that is no error."""
    if manifest.event != "recompile":
        page.heading("No failure", f"recorded as: {manifest.event}")
        return
    limit = "" if manifest.sequence is None else manifest.sequence.last.limit
    if limit:
        page.heading("Not compiled again", f"{limit} was hit; from here on torch asks no more")
    else:
        page.heading("Compiled again", f"{manifest.compile.compile_id}, since a guard failed")
    for line in manifest.reason.splitlines() or ["(torch gave no reason)"]:
        page.line(line)


def draw_frame(page: Page, bundle: Inspectable) -> None:
    """The frame's source with the failing line marked; of a failure inside a callee, the callee's too."""
    manifest, frame = bundle.manifest, bundle.manifest.frame
    resumes = f", resumes {frame.resume_of}" if frame.resume and frame.resume_of else ""
    page.heading("Frame", f"{frame.function}  {frame.file}:{frame.first_line}{resumes}")
    source = bundle.source_for(frame.file)
    if source is None:
        page.line(f"(no source was recorded; the code travels as {frame.code_kind})")
    else:
        draw_excerpt(page, source, failing_line(manifest), first=frame.first_line, last=frame.last_line)
    callee = failing_callee(manifest)
    if callee is None:
        return
    page.heading("Failing line", f"{callee.function}  {callee.file}:{callee.line}")
    text = bundle.source_for(callee.file)
    if text is None:
        page.line(callee.code or "(no source was recorded)")
    else:
        first = max(1, callee.line - CONTEXT)
        draw_excerpt(page, text, callee.line, first=first, last=callee.line + CONTEXT)


def failing_line(manifest: Manifest) -> int | None:
    """The line of the frame itself at which its innermost user frame stands, where the recording knows it."""
    inside = [user.line for user in _user_frames(manifest) if _within(manifest, user)]
    return inside[-1] if inside else None


def failing_callee(manifest: Manifest) -> UserFrame | None:
    """The innermost user frame, if it is in another function than the recorded frame."""
    users = _user_frames(manifest)
    return users[-1] if users and not _within(manifest, users[-1]) else None


def _user_frames(manifest: Manifest) -> tuple[UserFrame, ...]:
    return manifest.error.user_frames if manifest.error is not None else ()


def _within(manifest: Manifest, user: UserFrame) -> bool:
    frame = manifest.frame
    return user.file == frame.file and frame.first_line <= user.line <= frame.last_line


def draw_stack(page: Page, error: ErrorInfo | None) -> None:
    """The user's own lines, outermost first. A stack of one line says no more than the frame: left out."""
    if error is None or len(error.user_frames) < 2:
        return
    page.heading("User stack", "outermost first")
    hidden = len(error.user_frames) - STACK_FRAMES
    if hidden > 0:
        page.line(f"... {count(hidden, 'outer frame')} (--json has all)", style="dim")
    for user in error.user_frames[-STACK_FRAMES:]:
        page.line(f"{user.file}:{user.line} in {user.function}")
        if user.code:
            page.line(user.code, indent=6)


WAYS = {
    "export": "torch.export.export",
    "dynamo_export": "torch._dynamo.export",
    "aot_compile": "aot_compile of a compiled function",
    "compiled_autograd": "compiled autograd, which captured the backward graph",
}
"""How a frame comes to the compiler otherwise than by the call of a compiled function."""


def draw_compilation(page: Page, manifest: Manifest) -> None:
    """The arguments of `torch.compile`, the compile id, and the calls that compiled the frame before."""
    made = manifest.compile
    kinds = {"registered": "", "shipped": " (the user's own, in this bundle)", "unknown": " (not recorded)"}
    dynamic = {None: "automatic", True: "yes", False: "no"}
    rows = [
        ("backend", made.backend + kinds[made.backend_kind]),
        ("fullgraph", "yes" if made.fullgraph else "no"),
        ("dynamic", dynamic[made.dynamic]),
        *((f"option {name}", show_value(value)) for name, value in made.options.items()),
    ]
    if made.entry != "compile":
        rows.insert(0, ("through", WAYS.get(made.entry, made.entry)))
    if made.compile_id is not None:
        rows.append(("compile id", made.compile_id))
    if manifest.calls:
        ids = ", ".join(call.compile_id for call in manifest.calls)
        rows.append(("earlier", f"{count(len(manifest.calls), 'call')} compiled it before: {ids}"))
    page.heading("Compiled with")
    page.pairs(rows)


def draw_sizes(page: Page, bundle: Inspectable) -> None:
    """The entries that weigh most."""
    entries = sorted(bundle.manifest.entries.items(), key=lambda item: (-item[1].size, item[0]))
    if not entries:
        return
    total = show_size(sum(entry.size for _, entry in entries))
    page.heading("Sizes", f"{count(len(entries), 'entry').replace('entrys', 'entries')}, {total}")
    page.table(
        ("size", "entry"), [(show_size(entry.size), name) for name, entry in entries[:ENTRIES]], right=(0,)
    )
    if len(entries) > ENTRIES:
        page.line(f"... {len(entries) - ENTRIES} smaller", style="dim")


def draw_missing(page: Page, manifest: Manifest) -> None:
    """What could not be recorded; a replay that touches it says `missing`."""
    if manifest.missing:
        page.heading("Missing", "a replay that touches one of these stops with status missing")
        page.table(("name", "type", "reason"), [(one.name, one.type, one.reason) for one in manifest.missing])


def draw_commands(page: Page, bundle: Inspectable) -> None:
    """The commands that replay it."""
    path = shlex.quote(bundle.path)
    page.heading("Replay")
    page.line(f"python -m replay {path}")
    if bundle.manifest.compile.backend != "eager":
        page.line(f"python -m replay {path} --backend eager")
