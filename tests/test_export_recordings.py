"""Every bundle of recordings/ as a file without `replay`: verified, or said why not, as docs/export.md has it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from gold import assert_gold
from programs import ROOT

import replay
from replay import isolation
from replay.errors import UsageError
from replay.exporting.checking import identity

RECORDINGS = ROOT / "recordings"
NAMES = sorted(path.stem for path in RECORDINGS.glob("*.rec"))
DOCUMENT = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
SHOWN = ("dynamo_shape_mismatch", "module_with_parameters", "recompile_attribute", "wrong_numbers_relu")
pytestmark = pytest.mark.timeout(900)  # the first test waits for all exports
PRELOAD = {"path": str(RECORDINGS / "inductor_where_uint16.rec")}


@pytest.fixture(scope="module")
def exports():
    """What came of each: an Export, or the words of a refusal."""
    replay.load(
        PRELOAD["path"]
    ).close()  # msgspec 0.22 crashed where two threads used a type for the first time
    with isolation.ForkServer(
        "replay.replayer.preloading:preload", PRELOAD, sound="replay.replayer.preloading:may_fork"
    ) as server:

        def made(name):
            try:
                return replay.export(RECORDINGS / f"{name}.rec", call=server.call)
            except UsageError as refused:
                return str(refused)

        with ThreadPoolExecutor(2) as threads:
            return dict(zip(NAMES, threads.map(made, NAMES), strict=True))


def verdict(made):
    """In the words of the document."""
    if isinstance(made, str):
        return made.partition(": cannot be exported: ")[2]
    return "verified" if made.verified else f"not verified: {made.check.reason}"


def row_of(name):
    found = re.search(rf"^\| `{name}` \| (.*?) *\|$", DOCUMENT, re.MULTILINE)
    return found and found[1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="the table is of a machine without a GPU")
@pytest.mark.parametrize("name", NAMES)
def test_the_document_tells_what_came_of_it(name, exports):
    assert verdict(exports[name]) == row_of(name), getattr(exports[name], "text", "")


@pytest.mark.parametrize("name", [name for name in NAMES if row_of(name) == "verified"])
def test_what_is_verified_has_the_recorded_fingerprint_and_does_not_know_replay(name, exports):
    made = exports[name]
    with replay.load(RECORDINGS / f"{name}.rec") as bundle:
        core = identity(bundle.manifest).partition("-")[0]
    assert made.verified and made.check.fingerprint.partition("-")[0] == core
    imports = [
        node for node in ast.walk(ast.parse(made.text)) if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    assert not any("replay" in ast.unparse(node) for node in imports)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_as_ruff_formats_it(name, exports):
    """At the width of the recorded programs, whose own lines it keeps."""
    made = exports[name]
    if isinstance(made, str):
        return
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "120", "--check", "-"]
    done = subprocess.run(command, input=made.text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, made.text


@pytest.mark.parametrize("name", SHOWN)
def test_the_texts_are_what_a_maintainer_would_read(name, exports):
    text = exports[name].text.replace(replay.__version__, "REPLAY")
    text = re.sub(r"torch \d[\w.]*(\+\w+)?", "torch TORCH", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{8}", "FINGERPRINT", text)
    assert_gold(f"export_{name}.py.txt", text)
