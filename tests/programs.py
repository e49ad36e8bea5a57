"""Failing programs, and how the tests run, record and replay them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import textwrap
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

import replay
from replay.errors import RecordingWarning

ROOT = Path(__file__).parent.parent


def no_relu(gm, example_inputs):
    """A backend of the user's that rejects one operation."""
    for node in gm.graph.nodes:
        if "relu" in str(node.target):
            raise ValueError("no relu here")
    return gm.forward


@dataclass
class Run:
    """What a program did under the recorder."""

    error: BaseException | None
    bundles: list[Path]
    warnings: list[str]

    @property
    def manifest(self) -> Any:
        return replay.load(self.bundles[0]).manifest


def recorded(directory, program, **settings):
    """Run a program with the recorder on; its exception and the recorder's warnings are returned."""
    torch._dynamo.reset()
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RecordingWarning)
        with replay.record(directory, **settings) as recorder:
            try:
                program()
            except Exception as raised:
                error = raised
    lost = [str(one.message) for one in caught if one.category is RecordingWarning]
    return Run(error, list(recorder.bundles), lost)


def bare(program):
    """Run a program without the recorder; its exception."""
    torch._dynamo.reset()
    try:
        program()
    except Exception as raised:
        return raised
    return None


def here(bundle, **options):
    """Replay in this process."""
    return replay.run(bundle, isolate=False, **options)


def write(folder, name, text):
    """A file of a user's."""
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def python(*words, cwd, **environment):
    """Run Python in a process of its own, with this `replay` on the path."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@contextlib.contextmanager
def imported(folder, name, text):
    """A module of a user's, importable while inside; afterwards neither the file nor the module is there."""
    import importlib

    path = write(folder, f"{name}.py", text)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(name, None)
        path.unlink()
        shutil.rmtree(Path(folder) / "__pycache__", ignore_errors=True)
