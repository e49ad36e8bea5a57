"""The directory of `--artifacts`: refused, or given its name when everything is in it.

The replaying process writes into a hidden sibling as it goes; what is there counts, however it ended.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from replay import plain
from replay.errors import ReplayError, UsageError
from replay.recording import Artifacts, Outcome
from replay.replayer import inventory

INSTRUMENT = "artifacts"

_OF_THIS_REPLAY = re.compile(
    r"os\.environ\['(TORCHINDUCTOR_CACHE_DIR|TRITON_CACHE_DIR|TORCHINDUCTOR_\w+_REMOTE_CACHE|TORCH_LOGS)'\] = "
    r"|torch\._inductor\.config\.trace\."
)
"""Lines of torch's scripts that set what only this replay wanted: private caches, and this very directory."""


class Observed(Protocol):
    """What came of a replay, as `launch.observe` returns it."""

    @property
    def outcome(self) -> Outcome:
        """The outcome."""

    @property
    def found(self) -> Mapping[str, Any]:
        """What each instrument found."""


def published(directory: Path, replayed: Callable[[Mapping[str, Mapping[str, Any]]], Observed]) -> Outcome:
    """Replay, keep what torch made in `directory`, and say so in the outcome.

    `replayed(instruments)` replays once. UsageError if the directory is there already and not empty; it is not made
    where the replay raises.
    """
    _check(directory)
    part = _make_part(directory)
    try:
        observed = replayed({INSTRUMENT: {"directory": str(part)}})
        found = observed.found.get(INSTRUMENT)
        folder = _chosen(part, found)
        _settle(folder)
        lost = [f"artifacts: not written: {one}" for one in (found or {}).get("lost", ())]
        outcome = replace(observed.outcome, notes=(*observed.outcome.notes, *lost))
        outcome = _complete(folder, directory, outcome)
        _rename(folder, directory)
        return outcome
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _check(directory: Path) -> None:
    if directory.is_dir():
        if any(directory.iterdir()):
            raise UsageError(
                f"--artifacts {directory}: it is not empty; name a new directory, or remove this one first"
            )
    elif directory.exists() or directory.is_symlink():
        raise UsageError(f"--artifacts {directory}: it is no directory; name a new one")


def _make_part(directory: Path) -> Path:
    try:
        whole = directory.absolute()
        whole.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{whole.name}-", dir=whole.parent))
    except OSError as error:
        raise UsageError(f"--artifacts {directory}: cannot be made: {error.strerror or error}") from None


def _chosen(part: Path, found: Any) -> Path:
    """The folder of the replay that counts; of a process that did not live to tell, the last one."""
    folders = sorted(part.iterdir(), key=lambda one: int(one.name))
    for (
        folder
    ) in folders:  # a name that is none of theirs is not followed: it may come from the bundle's own code
        if found is not None and folder.name == str(found["folder"]):
            return folder
    if not folders:
        (part / "0").mkdir()
    return folders[-1] if folders else part / "0"


def _settle(folder: Path) -> None:
    """Inductor's debug directories beside what the trace brought of the same graphs; scripts without our settings."""
    debug = folder / "torchinductor"
    for made in sorted(debug.iterdir()) if debug.is_dir() else ():
        target = folder / "inductor" / made.name.rpartition(".")[0]
        if any((target / one.name).exists() for one in made.iterdir()):
            target = folder / "inductor" / made.name
        target.mkdir(parents=True, exist_ok=True)
        for one in made.iterdir():
            one.rename(target / one.name)
    shutil.rmtree(debug, ignore_errors=True)
    for path in folder.rglob("*_runnable*.py"):
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        kept = [line for line in text.splitlines() if not _OF_THIS_REPLAY.match(line)]
        path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _complete(folder: Path, directory: Path, outcome: Outcome) -> Outcome:
    """The outcome with its files; it and the index are among them."""
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    files = tuple(sorted(names | {"index.txt", "outcome.json"}))
    outcome = replace(outcome, artifacts=Artifacts(str(directory), files))
    (folder / "index.txt").write_text(_index(folder, outcome, files), encoding="utf-8")
    (folder / "outcome.json").write_text(plain.to_json(plain.to_plain(outcome)) + "\n", encoding="utf-8")
    return outcome


def _index(folder: Path, outcome: Outcome, files: tuple[str, ...]) -> str:
    lines = [
        f"What torch made of {outcome.function} under {outcome.backend}: {outcome.status}",
        f"replayed from {outcome.bundle}",
        "",
    ]
    before = None
    for name in (one for one in files if one != "index.txt"):
        group = name.rpartition("/")[0]
        if group != before and not group.endswith(inventory.INPUTS):
            lines += ["", *_title(folder, group)] if group else [""]
        if group.endswith(inventory.INPUTS):
            same = sum(one.startswith(group) for one in files)
            lines += [] if group == before else [f"{group} ({same} files)\n    {inventory.describe(name)}"]
        else:
            lines.append(f"{name}\n    {inventory.describe(name)}")
        before = group
    absent = inventory.absent(files)
    if absent:
        why = f"the backend {outcome.backend!r} does not make them, or the replay did not come so far"
        lines += ["", f"Not here: {', '.join(absent)}.", f"    ({why})"]
    return "\n".join(lines) + "\n"


def _title(folder: Path, group: str) -> list[str]:
    """The function of a frame's folder, where that is known."""
    told = folder / group / "frame.txt"
    lines = told.read_text(encoding="utf-8").splitlines()[:2] if told.is_file() else []
    return [f"{group}: " + ", ".join(" ".join(line.split()[1:]) for line in lines)] if lines else []


def _rename(folder: Path, directory: Path) -> None:
    try:
        if directory.is_dir():
            directory.rmdir()  # it is empty
        os.rename(folder, directory)
    except OSError as error:
        raise ReplayError(f"--artifacts {directory}: cannot be made: {error.strerror or error}") from error
