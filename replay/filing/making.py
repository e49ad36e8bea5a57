"""`issue()`: triage, export and the form, and the bundle under a name that GitHub takes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from replay import files
from replay.bundle import Bundle, load
from replay.contents.secrets import kinds_in
from replay.diagnosis import triage as make_triage
from replay.errors import ReplayError, UsageError
from replay.exporting import export as make_export
from replay.filing import form
from replay.findings.export import Export
from replay.findings.issue import LARGEST_ATTACHMENT, Attachment, Issue
from replay.findings.triage import Triage
from replay.replayer.launch import TIMEOUT
from replay.report.text import show_size
from replay.trust import admit

Heard = Callable[[str], None]
"""Called with what is being done."""


def issue(
    bundle: Bundle | str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    triage: bool = True,
    export: bool = True,
    attach: bool | None = None,
    force: bool = False,
    timeout: float | None = TIMEOUT,
    jobs: int | None = None,
    trust: bool | None = None,
    sandbox: bool | None = None,
    heard: Heard | None = None,
) -> Issue:
    """The Markdown that PyTorch's form for torch.compile bugs asks for, filled from a bundle.

    `triage`: replay under one backend after the other, for the ablation. `export`: make a file without `replay` of it,
    which is shown if it fails as recorded. `output`: where the text is written. `attach`: copy the bundle beside it as
    NAME.rec.zip; None: if there is an `output`. `force`: over files that exist. `timeout`: seconds for each child
    process. `jobs`: replays of the triage at a time. `trust`, `sandbox`: as `replay.run` takes them.

    Nothing is sent anywhere. What of triage and export could not be made is said in the text. Raises BundleError for
    an unreadable bundle, UsageError for a file that exists.
    """
    target = None if output is None else Path(output)
    opened = bundle if isinstance(bundle, Bundle) else load(Path(bundle))
    how = _How(target, target is not None if attach is None else attach, force)
    options: dict[str, Any] = {"timeout": timeout, "trust": trust, "sandbox": sandbox}
    try:
        how.check(opened)
        if triage or export:
            admit(opened, trust=trust, sandbox=sandbox)  # refused at once, not in the text
        tell, notes = heard or (lambda _: None), list[str]()
        found = _triaged(opened, jobs, options, tell, notes) if triage else None
        file, why = _exported(opened, options, tell) if export else (None, "it was not asked for")
        return _made(opened, how, found, file, why, notes)
    finally:
        if not isinstance(bundle, Bundle):
            opened.close()


@dataclass(frozen=True, slots=True)
class _How:
    """What is written where."""

    target: Path | None
    attach: bool
    force: bool

    def check(self, bundle: Bundle) -> None:
        """UsageError where a file is in the way; before anything slow is done."""
        if self.target is not None:
            files.check_place(self.target, ("",), option="-o")
        if self.target is not None and self.target.exists() and not self.force:
            raise UsageError(f"{self.target} exists; choose another name, or add --force")
        copy = self.copy(bundle)
        if copy is not None and copy.exists() and not self.force and not _is_same(copy, Path(bundle.path)):
            raise UsageError(f"{copy} exists, and is not a copy of {bundle.path}; add --force or --no-attach")

    def copy(self, bundle: Bundle) -> Path | None:
        """Where the bundle is copied to."""
        if not self.attach:
            return None
        folder = Path() if self.target is None else self.target.parent
        return folder / _name(bundle)


def _name(bundle: Bundle) -> str:
    name = Path(bundle.path).name
    return name if name.endswith(".zip") else f"{name}.zip"


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or one.read_bytes() == other.read_bytes()


def _made(  # noqa: PLR0917 - one caller, in this order
    bundle: Bundle, how: _How, found: Triage | None, file: Export | None, why: str, notes: list[str]
) -> Issue:
    attachment = _attached(bundle, how)
    if not attachment.fits:
        notes.append(
            f"{attachment.name} has {show_size(attachment.size)}, and GitHub takes {show_size(LARGEST_ATTACHMENT)}: "
            f"`python -m replay strip {bundle.path}` makes a smaller one"
        )
    manifest = bundle.manifest
    made = Issue(
        bundle=str(bundle.path),
        title=form.title(manifest),
        text=form.fill(manifest, attachment, found, file, why),
        attachment=attachment,
        triage=found,
        export=file,
        notes=tuple(notes),
    )
    if kinds := kinds_in(made.text):
        held = f"the text holds what looks like a secret ({', '.join(kinds)}): take it out before you send it"
        made = replace(made, notes=(*made.notes, held))
    if how.target is None:
        return made
    files.write(how.target, made.text.encode("utf-8"), option="-o")
    return replace(made, path=str(how.target))


def _triaged(
    bundle: Bundle, jobs: int | None, options: Mapping[str, Any], heard: Heard, notes: list[str]
) -> Triage | None:
    heard("triage")
    try:
        found = make_triage(bundle, jobs=jobs, **options)
    except ReplayError as error:
        notes.append(f"no triage: {error}")
        return None
    if found.fault in ("user_code", "none"):
        notes.append(f"read the verdict before you send it: {found.sentence}")
    return found


def _exported(bundle: Bundle, options: Mapping[str, Any], heard: Heard) -> tuple[Export | None, str]:
    """The file, and why there is none that is verified."""
    try:
        made = make_export(bundle, heard=heard, **options)
    except ReplayError as error:
        return None, str(error).removeprefix(f"{bundle.path}: ")
    return made, "" if made.verified else f"not verified: {made.check.reason}"


def _attached(bundle: Bundle, how: _How) -> Attachment:
    copy = how.copy(bundle)
    if copy is None:
        return Attachment(_name(bundle), bundle.size)
    if copy.resolve() != Path(bundle.path).resolve():
        try:
            shutil.copyfile(bundle.path, copy)
        except OSError as error:
            raise UsageError(f"{copy}: cannot be written: {error.strerror or error}") from error
    return Attachment(_name(bundle), bundle.size, str(copy))
