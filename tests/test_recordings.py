"""Every bundle of recordings/ opens, replays where its program is absent, and says what the README says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import replay
from replay.fingerprint import same_text

ROOT = Path(__file__).parent.parent
RECORDINGS = ROOT / "recordings"
NAMES = sorted(path.stem for path in RECORDINGS.glob("*.rec"))
BACKENDS = ("eager", "aot_eager", "inductor")


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory):
    """Outcomes by "NAME BACKEND", from a fresh process in an empty directory."""
    empty = tmp_path_factory.mktemp("empty")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "replay_recordings.py"), str(RECORDINGS), "recorded", *BACKENDS],
        cwd=empty,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert not list(empty.iterdir())
    return json.loads(done.stdout.splitlines()[-1])


def test_there_are_at_least_ten_and_each_stands_beside_its_program():
    assert len(NAMES) >= 10
    assert all((RECORDINGS / f"{name}.py").exists() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_verifies(name):
    with replay.load(RECORDINGS / f"{name}.rec") as bundle:
        bundle.verify()
        assert bundle.manifest.missing == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_reproduced_with_the_same_type_and_text(name, outcomes):
    outcome = outcomes[f"{name} recorded"]
    error, recorded = outcome["error"], outcome["recorded_error"]
    assert outcome["status"] == "reproduced", error
    assert error["type"] == recorded["type"]
    assert error["stage"] == recorded["stage"]
    assert error["fingerprint"] == recorded["fingerprint"]
    assert same_text(recorded["message"], error["message"])


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_tells_the_statuses(name, outcomes):
    found = " | ".join(outcomes[f"{name} {backend}"]["status"] for backend in BACKENDS)
    assert f"`{name}`" in README and row_of(name) == found


README = (ROOT / "README.md").read_text(encoding="utf-8")


def row_of(name):
    match = re.search(rf"^\| `{name}` \|[^|]*\|\s*(.*?)\s*\|$", README, re.MULTILINE)
    return match and match[1]
