"""Every bundle of recordings/ opens, replays where its program is absent, and says what the README says."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest
import torch
from processes import run_python

import replay
from replay.fingerprint import same, same_text

ROOT = Path(__file__).parent.parent
RECORDINGS = ROOT / "recordings"
NAMES = sorted(path.stem for path in RECORDINGS.glob("*.rec"))
BACKENDS = ("eager", "aot_eager", "inductor")


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory):
    """Outcomes by "NAME BACKEND", from a fresh process in an empty directory."""
    empty = tmp_path_factory.mktemp("empty")
    program = str(ROOT / "tests" / "replay_recordings.py")
    printed = run_python(empty, program, str(RECORDINGS), "recorded", *BACKENDS)
    assert not list(empty.iterdir())
    return json.loads(printed.splitlines()[-1])


def test_there_are_at_least_ten_and_each_stands_beside_its_program():
    assert len(NAMES) >= 10
    assert all((RECORDINGS / f"{name}.py").exists() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_verifies(name):
    with replay.load(RECORDINGS / f"{name}.rec") as bundle:
        bundle.verify()
        assert bundle.manifest.missing == ()


WITH_KERNELS = ("cuda_triton", "cuda_run_time")
TRITON = importlib.util.find_spec("triton") is not None


def lacks_triton(name):
    """Whether the frame uses Triton, which is not installed here."""
    return name.startswith(WITH_KERNELS) and not TRITON


def same_release(name):
    """Whether the torch of a recording words its messages as the one here does."""
    with replay.load(RECORDINGS / f"{name}.rec") as bundle:
        recorded = bundle.manifest.environment.torch
    return recorded.split(".")[:2] == torch.__version__.split(".")[:2]


def recorded_reason(name):
    """Of a recompilation: why."""
    with replay.load(RECORDINGS / f"{name}.rec") as bundle:
        return bundle.manifest.reason


def guard(reason):
    """The guard that failed: without the compile id before it, and the line after it, whose path torch shortens.

    And without an object's `id`.
    """
    return re.sub(r"\d{11,}", "#", reason.partition(": ")[2].partition("  #")[0].strip())


def lacks_a_gpu(name):
    """Whether the failure cannot come here: Triton is not installed, or it is of Inductor's code for the GPU."""
    return lacks_triton(name) or (name == "cuda_triton_kernel_error" and not torch.cuda.is_available())


@pytest.mark.parametrize("name", [name for name in NAMES if not lacks_a_gpu(name)])
def test_a_recording_is_reproduced_with_the_same_type_and_text(name, outcomes):
    outcome = outcomes[f"{name} recorded"]
    error, recorded = outcome["error"], outcome["recorded_error"]
    assert outcome["status"] == "reproduced", error
    if outcome["recorded_error"] is None:
        assert guard(outcome["reason"]) == guard(recorded_reason(name))
        return
    assert error["type"] == recorded["type"]
    assert error["stage"] == recorded["stage"]
    assert same(recorded["fingerprint"], error["fingerprint"], same_torch=same_release(name))
    assert not same_release(name) or same_text(recorded["message"], error["message"])


@pytest.mark.parametrize("name", [name for name in NAMES if lacks_a_gpu(name)])
def test_a_recording_that_needs_a_gpu_says_what_is_missing(name, outcomes):
    outcome = outcomes[f"{name} recorded"]
    assert outcome["status"] == "missing"
    lacking = " ".join(one["name"] for one in outcome["missing"])
    assert "CUDA device" in lacking or "triton" in lacking


@pytest.mark.skipif(torch.cuda.is_available(), reason="the README's table is of a machine without a GPU")
@pytest.mark.parametrize("name", NAMES)
def test_the_readme_tells_the_statuses(name, outcomes):
    if lacks_triton(name):
        pytest.skip("the README's table is of a machine with Triton")
    keys = [f"{name} {backend}" for backend in BACKENDS]
    found = " | ".join(outcomes[key]["status"] for key in keys if key in outcomes)
    assert f"`{name}`" in README and row_of(name) == found


README = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "README.md", RECORDINGS / "README.md"))


def row_of(name):
    match = re.search(rf"^\| `{name}` \|[^|]*\|\s*(.*?)\s*\|$", README, re.MULTILINE)
    return match and match[1]
