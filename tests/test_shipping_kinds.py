"""Every kind of object, dumped where the user's package exists and loaded where it is absent.

The kinds are the cases of tests/cargo: a function that makes a value, and a check that travels with it. All cases
of a module share one process for dumping and one for loading. The plain ones run between versions of Python.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from interpreters import HERE, VERSIONS, interpreter

HOUSE = Path(__file__).parent.parent
FOLDERS: list[Path] = []
BYTECODE_ONLY = {"code_without_text": "bytecode is read by the same version of Python only"}


def names_of(module):
    """The cases of a module, read from its text: importing it would import torch."""
    lines = (HOUSE / "tests" / "cargo" / f"{module}.py").read_text().splitlines()
    found, pending = [], False
    for line in lines:
        pending = pending or line.startswith("@case(")
        if pending and line.startswith("def "):
            found.append(line[4:].partition("(")[0])
            pending = False
    return found


def run(command, path, folder):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


@functools.cache
def dumped(module, version):
    """The folder with the dumped cases; the package is gone from it."""
    folder = Path(tempfile.mkdtemp(prefix="replay-kinds-"))
    FOLDERS.append(folder)
    package = folder / "user" / "cargo"
    shutil.copytree(HOUSE / "tests" / "cargo", package)
    script = HOUSE / "tests" / "cargo_dump.py"
    run([interpreter(version), str(script), module, "dumped.bin"], [str(HOUSE), str(package.parent)], folder)
    shutil.rmtree(package)
    return folder


@functools.cache
def results(module, recorded, replayed):
    folder = dumped(module, recorded)
    script, target = HOUSE / "tests" / "cargo_load.py", f"results-{replayed}.json"
    needs = "torch" if module == "neural" else "plain"
    run([interpreter(replayed), str(script), "dumped.bin", target, needs], [str(HOUSE)], folder)
    return json.loads((folder / target).read_text())


@pytest.fixture(scope="module", autouse=True)
def folders_are_removed():
    yield
    while FOLDERS:
        shutil.rmtree(FOLDERS.pop(), ignore_errors=True)
    dumped.cache_clear()
    results.cache_clear()


@pytest.mark.parametrize("name", names_of("plain"))
def test_plain_kind_travels(name):
    problem = results("plain", HERE, HERE)[name]
    assert problem is None, problem


@pytest.mark.parametrize("name", names_of("neural"))
def test_kind_of_torch_travels(name):
    problem = results("neural", HERE, HERE)[name]
    assert problem is None, problem


@pytest.mark.parametrize("replayed", VERSIONS)
@pytest.mark.parametrize("recorded", VERSIONS)
def test_plain_kinds_travel_between_versions_of_python(recorded, replayed):
    for version in (recorded, replayed):
        if interpreter(version) is None:
            pytest.skip(f"no Python {version} was found")
    problems = {name: problem for name, problem in results("plain", recorded, replayed).items() if problem}
    expected = set(BYTECODE_ONLY) if recorded != replayed else set()
    assert set(problems) == expected, "\n".join(problems.values())


def test_the_register_has_every_case_that_is_read_from_the_text():
    sys.path.insert(0, str(HOUSE / "tests"))
    try:
        importlib.import_module("cargo.plain")
        assert list(importlib.import_module("cargo.cases").CASES) == names_of("plain")
    finally:
        sys.path.pop(0)
        for name in [name for name in sys.modules if name.partition(".")[0] == "cargo"]:
            del sys.modules[name]
