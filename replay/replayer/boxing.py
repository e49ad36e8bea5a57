"""Replaying in a sandbox: what of this machine the replay needs, and what comes out of it.

What a sandbox is lives in `replay.isolation`; who is to be put into one, in `replay.trust`.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from replay import isolation
from replay.recording import Manifest, Outcome
from replay.replayer.publishing import INSTRUMENT
from replay.trust import Admission

LARGEST = 1 << 30
"""Bytes of a file of artifacts that is taken out of a sandbox."""
DEEPEST = 16
"""Levels of directories that are taken out."""


def caller(request: Mapping[str, Any], shared: Sequence[Path]) -> Callable[..., isolation.ChildResult]:
    """As `isolation.call`, in a sandbox that sees the bundle of the request, and may write to what is `shared`."""
    gpus = str(request["device"] or "").startswith("cuda")

    def call(target: str, asked: Mapping[str, Any], **how: Any) -> isolation.ChildResult:
        with _artifacts(asked) as (told, writable):
            within = isolation.Sandbox((Path(asked["path"]),), (*shared, *writable), gpus)
            return isolation.call_in_sandbox(target, told, within=within, **how)

    return call


def noted(outcome: Outcome, manifest: Manifest, request: Mapping[str, Any], admitted: Admission) -> Outcome:
    """The outcome, with a note that says where it came about."""
    notes = [f"replayed in a sandbox, without network and without your files: {admitted.why}"]
    if manifest.environment.gpus and request["device"] is None:
        notes.append("the sandbox has no GPU; --device cuda gives it one")
    return replace(outcome, notes=(*outcome.notes, *notes))


@contextmanager
def _artifacts(asked: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], tuple[Path, ...]]]:
    """The request with a directory of its own for artifacts. They are copied to where they belong after the block."""
    wanted = asked["instruments"].get(INSTRUMENT)
    if wanted is None:
        yield asked, ()
        return
    made = Path(tempfile.mkdtemp(prefix="replay-artifacts-"))
    try:
        own = {**asked["instruments"], INSTRUMENT: {**wanted, "directory": str(made)}}
        yield {**asked, "instruments": own}, (made,)
        for folder in os.scandir(made):
            if folder.name.isdecimal() and folder.is_dir(follow_symlinks=False):
                _copy(Path(folder.path), Path(wanted["directory"]) / folder.name, DEEPEST)
    finally:
        isolation.remove(made)


def _copy(source: Path, target: Path, levels: int) -> None:
    """Plain files and directories. A link could lead anywhere, and reading a pipe never ends."""
    target.mkdir(exist_ok=True)
    for one in os.scandir(source):
        found = one.stat(follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) and levels:
            _copy(Path(one.path), target / one.name, levels - 1)
        elif stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST:
            shutil.copyfile(one.path, target / one.name, follow_symlinks=False)
