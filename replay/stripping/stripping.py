"""`strip()`: a new bundle beside the old one, a replay that tells whether the failure survived, and what is left."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from replay.bundle import Bundle, load
from replay.contents.privacy import privacy_of
from replay.errors import BundleError, UsageError
from replay.findings.stripping import Stripped, Survival
from replay.recording import Manifest, Outcome, Substitution
from replay.replayer import run
from replay.stripping.content import Stripping, Wanted, unknown_names
from replay.trust import admit

Checked = tuple[Survival, Outcome | None, str]  # and the reason, in words

_NOT_CHECKED = Substitution(
    None, None, reason="the bundle was stripped after it was recorded, and not checked"
)
_ENDINGS = (".rec.zip", ".rec")


def strip(
    bundle: Bundle | str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    values: Literal["all", "none"] | Sequence[str] = "all",
    comments: bool = True,
    names: bool = True,
    environment: Literal["minimal", "recorded"] = "minimal",
    drop_globals: Sequence[str] = (),
    drop_calls: bool = False,
    check: bool = True,
    force: bool = False,
    timeout: float | None = None,
    trust: bool | None = None,
    sandbox: bool | None = None,
) -> Stripped:
    """Write the bundle once more with less in it, and say whether its failure survived that.

    `out`: the new file, `x.stripped.rec` beside the old one if not given. `values`: whose tensors' values become
    metadata: "all", "none", or names of inputs and storages. `comments`: these and docstrings go. `names`:
    directories, user and host names, e-mail addresses become other words. `environment`: "minimal": only variables
    that a replay sets, no platform, no processor. `drop_globals`: names of globals that go; a placeholder stands for
    each. `drop_calls`: the calls that compiled the frame before go. `check`: replay the new bundle (which runs its
    code), and the old one where that does otherwise; the new file stays in any case. `force`: write over an `out`
    that exists. `timeout`: of a replay. `trust`, `sandbox`: as `replay.run` takes them; the new bundle, which has the
    old one's code, is replayed as the old one would be, and is the user's own if that is.

    The original is never written to. Raises UsageError for an `out` that may not be written and for unknown names,
    BundleError for a damaged bundle.
    """
    opened = bundle if isinstance(bundle, Bundle) else load(bundle)
    try:
        target = _target(Path(opened.path), out, force=force)
        options = _how(opened, trust, sandbox, timeout) if check else {}
        wanted = Wanted(
            _chosen(opened.manifest, values),
            comments,
            names,
            _is_minimal(environment),
            (drop_globals,) if isinstance(drop_globals, str) else tuple(drop_globals),
            drop_calls,
        )
        stripping = Stripping(opened, wanted).prepare()
        with _folder_beside(target) as folder:
            made = stripping.write(Path(folder), _NOT_CHECKED)
            removed, kept = tuple(stripping.removed), tuple(stripping.kept)
            checked: Checked = _checked(made, opened, options) if check else ("unchecked", None, "")
            survival, outcome, reason = checked
            if survival in ("survived", "lost") and outcome is not None:
                found = Substitution(survival == "survived", survival == "survived", reason)
                made = stripping.write(Path(folder), found)
            _publish(made, target, force=force)
        return _told(target, opened, removed, kept, survival, outcome, reason)
    finally:
        if not isinstance(bundle, Bundle):
            opened.close()


def _told(  # noqa: PLR0917 - one caller, in this order
    target: Path,
    original: Bundle,
    removed: tuple[str, ...],
    kept: tuple[str, ...],
    survival: Survival,
    outcome: Outcome | None,
    reason: str,
) -> Stripped:
    with load(target) as made:
        return Stripped(
            bundle=str(target),
            original=original.path,
            size=made.size,
            original_size=original.size,
            removed=removed,
            kept=kept,
            survival=survival,
            outcome=None if outcome is None else replace(outcome, bundle=str(target)),
            reason=reason,
            left=privacy_of(made),
        )


def _folder_beside(target: Path) -> tempfile.TemporaryDirectory[str]:
    """Where the new file is made, on the disk where it will be."""
    try:
        return tempfile.TemporaryDirectory(prefix=".strip-", dir=target.parent)
    except OSError as error:
        why = error.strerror or error
        raise BundleError(f"{target}: cannot be written: {why}; name a file elsewhere with -o") from error


def _target(original: Path, out: str | os.PathLike[str] | None, *, force: bool) -> Path:
    ending = next((one for one in _ENDINGS if original.name.endswith(one)), "")
    default = original.with_name(original.name.removesuffix(ending) + ".stripped.rec")
    target = default if out is None else Path(out)
    if not target.parent.is_dir():
        raise UsageError(f"{target}: there is no directory {target.parent}; make it, or name another file")
    if target.is_dir():
        raise UsageError(f"{target}: this is a directory; name a file in it")
    if target.exists() and os.path.samefile(target, original):
        raise UsageError(
            f"{target}: that is the original, which is never written over; name another file with -o"
        )
    if target.exists() and not force:
        raise UsageError(
            f"{target}: the file exists; name another one with -o, or write over it with --force"
        )
    return target


def _is_minimal(environment: str) -> bool:
    if environment not in ("minimal", "recorded"):
        raise UsageError(f"environment={environment!r}: must be minimal or recorded")
    return environment == "minimal"


def _chosen(manifest: Manifest, values: str | Sequence[str]) -> Sequence[str] | None:
    """Names of inputs and storages; None: all."""
    if values == "all":
        return None
    chosen = () if values == "none" else (values,) if isinstance(values, str) else tuple(values)
    if unknown := list(unknown_names(manifest, chosen)):
        known = ", ".join(one.name for one in manifest.inputs) or "none"
        raise UsageError(f"no input or storage is called {unknown[0]!r}; the inputs are: {known}")
    return chosen


def _how(bundle: Bundle, trust: bool | None, sandbox: bool | None, timeout: float | None) -> dict[str, Any]:
    """The options of the replays. Raises UntrustedError, before anything is written."""
    sandboxed = admit(bundle, trust=trust, sandbox=sandbox).sandboxed
    options: dict[str, Any] = {"sandbox": True} if sandboxed else {"trust": True}
    return options if timeout is None else {**options, "timeout": timeout}


def _checked(made: Path, original: Bundle, options: Mapping[str, Any]) -> Checked:
    """Whether the new bundle does what the old one does. The old one is replayed only where that is in doubt."""
    expected = "passed" if original.manifest.event == "success" else "reproduced"
    outcome = run(made, **options)
    if outcome.status == expected:
        return "survived", outcome, ""
    before = run(original, **options)
    if before.status == expected:
        return "lost", outcome, f"the original is {expected} here, the stripped bundle {outcome.status}"
    return "unknown", outcome, f"the original itself is not {expected} here, but {before.status}"


def _publish(made: Path, target: Path, *, force: bool) -> None:
    """Give the file its name; without `force` never in the place of another, whoever made that meanwhile."""
    taken = f"{target}: the file exists; name another one with -o, or write over it with --force"
    try:
        if not force:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # works without hard links too
        os.replace(made, target)
    except FileExistsError:
        raise UsageError(taken) from None
    except OSError as error:
        why = error.strerror or error
        raise BundleError(f"{target}: cannot be written: {why}; name another file with -o") from error
