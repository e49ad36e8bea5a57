"""Whether an exported file fails as recorded. Runs in a child process of its own.

The file is run twice. First under the recorder's hooks, which tell the fingerprint of what fails: the stage, the
types of the exception and of the one that it wraps, torch's name for a graph break, function and text of the user's
innermost line, the message's title, and the innermost function of torch. Paths and line numbers are no part of it.
Then by itself: `python -I` in an empty directory, where `import replay` raises; it must end as it did before.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from replay import fingerprint, isolation, script
from replay.bundle import load
from replay.findings.export import Check
from replay.recorder import record
from replay.recording import Manifest
from replay.replayer.preparation import release
from replay.torch_adapter import environment, features

FILE = "repro.py"

NO_CUDA = "it needs a CUDA device to run on, and there is none here"

_ALONE = """\
import runpy, sys
sys.modules["replay"] = None
try:
    runpy.run_path(sys.argv[1], run_name="__main__")
except BaseException as error:
    kind = type(error)
    open(sys.argv[2], "w").write(f"{kind.__module__}.{kind.__qualname__}")
    raise
"""
"""Runs a file as `__main__` where there is no `replay`, and leaves the type of what came out of it."""


def check(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run a file's `text`; the rest is of the recording. A `Check` as plain data.

    `event`, `fingerprint`, `compiles`: of a sequence, else 0; `torch`: its version; `cuda`: whether the file has
    tensors on CUDA.
    """
    directory = isolation.private_directory()
    assert directory is not None  # only a child is asked
    place = directory / "program"
    place.mkdir()
    (place / FILE).write_text(request["text"], encoding="utf-8")
    os.chdir(place)
    for name, value in {**environment.alone(), **_caches(directory / "hooked")}.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    features.load()
    torch = features.module("torch")
    version = str(torch.__version__)
    if request["cuda"] and not torch.cuda.is_available():
        return asdict(Check(False, NO_CUDA, torch=version, ran=False))
    with _alone(directory, place / FILE) as told:
        ended, seen = _under_hooks(place / FILE, request["event"])
    alone = told.read_text(encoding="utf-8") if told.exists() else ""
    same_torch = release(version) == release(request["torch"])
    same = [one for one in seen if fingerprint.same(request["fingerprint"], one[0], same_torch=same_torch)]
    match = next((one for one, compiles in same if compiles == request["compiles"]), None)
    if match is None:
        return asdict(Check(False, _other(ended, [one for one, _ in same or seen]), torch=version))
    if alone != ended:
        reason = f"under the recorder's hooks it ended with {ended or 'no error'}, by itself with {alone or 'none'}"
        return asdict(Check(False, reason, match, version))
    return asdict(Check(True, "", match, version))


def identity(manifest: Manifest) -> str:
    """The fingerprint by which a recording's event is known: of a sequence that of its frame."""
    return _of_event(manifest) if manifest.sequence is None else manifest.sequence.fingerprint


def compiles(manifest: Manifest) -> int:
    """How often the frame of a sequence came to the compiler; 0 for what is no sequence."""
    return 0 if manifest.sequence is None else len(manifest.calls) + 1


def _of_event(manifest: Manifest) -> str:
    return manifest.signature if manifest.error is None else manifest.error.fingerprint


def _under_hooks(path: Path, event: str) -> tuple[str, list[tuple[str, int]]]:
    """The type of what came out of the file; the fingerprints of all that was recorded of it, with `compiles`.

    Which guard a compilation names depends on the calls between: torch asks the entry first that was used last. So a
    sequence has the fingerprint of its frame besides that of its last reason.
    """
    ended, recorder = "", record("bundles", on="all" if event == "success" else event, tensors="metadata")
    try:
        with script.prepared(script.Program(str(path))) as run, recorder:  # which sees what comes out
            run()
    except BaseException as error:  # noqa: BLE001 - SystemExit is an ending too
        ended = f"{type(error).__module__}.{type(error).__qualname__}"
    seen: list[tuple[str, int]] = []
    for one in recorder.bundles:
        with load(one) as bundle:
            manifest = bundle.manifest
        if manifest.event == event:
            seen += dict.fromkeys([(_of_event(manifest), 0), (identity(manifest), compiles(manifest))])
    return ended, seen


@contextmanager
def _alone(directory: Path, path: Path) -> Iterator[Path]:
    """Meanwhile run the file in a process of its own; then the type of what came out of it is in a file."""
    empty, told = directory / "empty", directory / "ended"
    empty.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _ALONE, str(path), str(told)],
        cwd=empty,
        env={**kept, **_caches(directory / "alone")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield told
        process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _caches(directory: Path) -> dict[str, str]:
    """Fresh cache directories: no earlier compilation answers in place of the compiler."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(directory / "inductor"),
        "TRITON_CACHE_DIR": str(directory / "triton"),
    }


def _other(ended: str, seen: list[str]) -> str:
    if seen:
        return f"it fails otherwise: {', '.join(seen)}, ending with {ended or 'no error'}"
    return f"nothing was recorded of it; it ended with {ended or 'no error'}"
