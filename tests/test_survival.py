"""The check while recording: does the failure survive without its values, and without what was left out?

The ladder is tested with a stand-in for the child; programs at the end go the whole way, all in two processes.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from bundles import plain_manifest
from processes import ROOT, run_python

import replay
from replay.bundle import BundleWriter, load
from replay.errors import BundleError, ReplayError
from replay.recorder import survival
from replay.recorder.survival import CAP, PENDING, Content, Written
from replay.recording import ErrorInfo, LeftOut, Missing, Outcome, StorageSpec, TensorSpec
from replay.torch_adapter import environment
from replay.torch_adapter.tensors import RUN_BUDGET

ERROR = ErrorInfo("builtins.ValueError", "no", "backend", "f1")
TENSOR = TensorSpec((100_000,), (1,), 0, "float32", "cpu", "s0")
LEFT = (LeftOut("self.decoder", "nets.Decoder", 8_000_000),)


def write_checked(write, **settings):
    """Written, and checked if that is due."""
    path, check = survival.begin(write, **settings)
    return path if check is None else check()


def outcome(status, error=None, missing=()):
    return Outcome("x.rec", status, "eager", "f", error, ERROR, missing=missing)


REPRODUCED = outcome("reproduced", ERROR)
PASSED = outcome("passed")
ASKED = outcome("missing", missing=(Missing("self.decoder", "nets.Decoder", "left out"),))


class Recording:
    """Stands for `capture`: writes bundles that hold nothing, whose manifests say what they would hold."""

    def __init__(self, folder, *, nbytes=400_000, left_out=LEFT):
        self.folder, self.nbytes, self.left_out = folder, nbytes, left_out
        self.contents = []

    def __call__(self, content, found, instead_of):
        self.contents.append(content)
        real = content.budget is not None and content.budget >= self.nbytes
        storages = {"s0": StorageSpec(self.nbytes, 0, self.nbytes, "cpu", None, "float32")}
        left_out = self.left_out if content.pruned else ()
        kept = ("s0",) if real else ()
        with BundleWriter(self.folder, "x") as writer:
            if real:
                entry = writer.add_blob("s0", self.nbytes, [bytes(self.nbytes)])
                storages = {"s0": replace(storages["s0"], entry=entry)}
            manifest = plain_manifest(
                tensors={"t0": TENSOR},
                storages=storages,
                left_out=left_out,
                substitution=survival.stated(found, storages, left_out, kept),
            )
            return Written.of(writer.publish(manifest, instead_of), manifest)


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Run the check with these outcomes of its children; what was written, found and told."""

    def run(*outcomes, values_matter=False, **settings):
        waiting, told = list(outcomes), []

        def child(path, *, timeout, env, trust):
            load(path).close()  # whole and readable while it is checked
            assert env[environment.CHECK] == "0"
            assert trust is True  # it is the file that the recorder has written
            found = waiting.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(survival, "run", child)
        writes = Recording(tmp_path, **settings)
        path = write_checked(writes, values_matter=values_matter, warn=told.append)
        assert [one.name for one in tmp_path.iterdir()] == ["x.rec"]
        assert not waiting
        with load(path) as bundle:
            return writes.contents, bundle.manifest.substitution, told

    return run


def test_a_failure_that_survives_stays_as_small_as_it_was(checked):
    contents, found, told = checked(REPRODUCED)
    assert contents == [Content(), Content()]
    assert (found.survived, found.reproduces, found.kept, found.whole) == (True, True, (), False)
    assert not told


def test_a_failure_that_needs_values_gets_them_and_stays_pruned(checked):
    contents, found, told = checked(PASSED, REPRODUCED)
    assert contents[1:] == [Content(True, RUN_BUDGET)] * 2
    assert (found.survived, found.reproduces, found.kept, found.whole) == (False, True, ("s0",), False)
    assert found.reason == "passed"
    assert not told


def test_a_replay_that_asks_for_what_was_left_out_gets_it_before_values(checked):
    contents, found, _ = checked(ASKED, REPRODUCED)
    assert contents[1:] == [Content(pruned=False)] * 2
    assert (found.survived, found.reproduces, found.kept, found.whole) == (False, True, (), True)
    assert "self.decoder" in found.reason


def test_a_failure_that_never_comes_back_keeps_the_fullest_and_is_told(checked):
    other = outcome(
        "different", replace(ERROR, type="builtins.KeyError", message="'x'\nmore", fingerprint="f2")
    )
    contents, found, told = checked(PASSED, PASSED, other)
    assert contents[-1] == Content(False, RUN_BUDGET)
    assert (found.survived, found.reproduces, found.whole) == (False, False, True)
    assert found.reason == "different: KeyError: 'x'"
    assert len(told) == 1
    assert "inspect" in told[0]


def test_no_more_than_the_cap_is_ever_kept(checked, monkeypatch):
    monkeypatch.setattr(survival, "RUN_BUDGET", 1000)
    monkeypatch.setattr(survival, "CAP", 2000)
    contents, found, _ = checked(PASSED, PASSED, PASSED, left_out=())
    assert [one.budget for one in contents] == [None, 1000, 2000, 2000]
    assert found.kept == ()
    assert CAP == 1 << 30


def test_after_a_failure_at_run_time_the_usual_budget_is_not_tried_again(checked):
    contents, _, _ = checked(PASSED, REPRODUCED, values_matter=True, left_out=())
    assert contents[1] == Content(True, CAP)


@pytest.mark.parametrize(
    ("answer", "reason", "warned"),
    [
        (OSError("no more processes"), "OSError: no more processes", False),
        (ReplayError("x: after 9 s nothing was compiled yet; raise"), "no answer within", True),
        (
            outcome("different", ErrorInfo("Timeout", "it ended", "backend", "f9")),
            "no answer: it ended",
            True,
        ),
        (outcome("different", ErrorInfo("OutOfMemory", "90 GB", "backend", "f9")), "no memory", False),
        (
            outcome("different", ErrorInfo("torch.OutOfMemoryError", "CUDA out of memory", "backend", "f9")),
            "no memory",
            False,
        ),
        (
            outcome("missing", missing=(Missing("globals.log", "file", "open"),)),
            "missing: globals.log",
            False,
        ),
    ],
)
def test_without_an_answer_it_is_not_known_and_the_first_bundle_stays(checked, answer, reason, warned):
    contents, found, told = checked(answer)
    assert contents == [Content(), Content()]
    assert (found.survived, found.reproduces) == (None, None)
    assert found.reason.startswith(reason)
    assert bool(told) == warned
    assert all(environment.CHECK in one for one in told)


def test_a_bundle_without_made_up_values_is_not_checked(checked):
    contents, found, _ = checked(nbytes=0, left_out=())
    assert contents == [Content()]
    assert found is None


def test_the_check_can_be_turned_off_and_says_so(checked, monkeypatch):
    monkeypatch.setenv(environment.CHECK, "0")
    contents, found, _ = checked()
    assert contents == [Content()]
    assert environment.CHECK in found.reason


def test_a_variable_that_is_no_number_is_told_and_not_heeded(checked, monkeypatch):
    monkeypatch.setenv(environment.CHECK, "soon")
    _, found, told = checked(REPRODUCED)
    assert found.survived
    assert "no number" in told[0]


def test_time_that_is_up_ends_the_check(checked, monkeypatch):
    monkeypatch.setenv(environment.CHECK, "0.5")
    _, found, told = checked()
    assert found.reason == "no answer within 0.5 s"
    assert len(told) == 1


def test_a_full_disk_leaves_the_first_bundle(tmp_path, monkeypatch):
    monkeypatch.setattr(survival, "run", lambda *args, **options: PASSED)
    writes, told = Recording(tmp_path), []

    def once(content, found, instead_of):
        if instead_of is not None:
            raise BundleError("x.rec: cannot be written: no space left; free some space")
        return writes(content, found, instead_of)

    path = write_checked(once, values_matter=False, warn=told.append)
    with load(path) as bundle:
        assert bundle.manifest.substitution == replace(PENDING, kept=())
    assert "the first one stays" in told[0]


def test_a_bundle_that_somebody_has_put_something_else_for_is_left_alone(tmp_path, monkeypatch):
    def child(path, **options):
        path.unlink()
        path.write_text("mine")
        return REPRODUCED

    monkeypatch.setattr(survival, "run", child)
    path = write_checked(Recording(tmp_path), values_matter=False, warn=print)
    assert (tmp_path / "x.rec").read_text() == "mine"
    assert path.name == "x-2.rec"


def test_closed_standard_error_stops_nobody(checked, monkeypatch):
    def refuse(*args):
        raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(logging.getLogger("replay"), "warning", refuse)
    assert checked(REPRODUCED)[1].survived


def test_a_child_is_no_rank_and_logs_nowhere(monkeypatch):
    for name in (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "TORCH_TRACE",
        "RANKING",
    ):
        monkeypatch.setenv(name, "1")
    found = environment.alone()
    assert {name for name, value in found.items() if value is None} >= {
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCH_TRACE")
    }
    assert "RANKING" not in found


PROGRAM = """
import json, os, signal, sys, torch, replay
from replay.recorder import survival

def no_nan(graph, inputs):
    if any(one.isnan().any() for one in inputs if isinstance(one, torch.Tensor)):
        raise ValueError("a NaN came in")
    return graph.forward

def shapes(x):
    return x @ torch.ones(3, 5)

def values(x):
    return x.sin() + 1

def record(name, function, x, backend="eager", **settings):
    torch._dynamo.reset()
    with replay.record(sys.argv[1] + "/" + name, **settings) as recorder:
        try: torch.compile(function, backend=backend)(x)
        except Exception as error: pass
    found[name] = str(recorder.bundles[0])

found = {}
poor = torch.ones(100_000)
poor[17] = float("nan")
if sys.argv[2] == "killed":
    survival.run = lambda *args, **options: os.kill(os.getpid(), signal.SIGKILL)
    record("killed", shapes, poor)
record("shapes", shapes, poor)
record("values", values, poor, no_nan)
def refuse(*args, **options): raise AssertionError("nothing is to be checked")
survival.run = refuse
for policy in ("full", "metadata"):
    record(policy, values, poor, no_nan, tensors=policy)
record("small", shapes, torch.ones(4, 4))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Bundles of real programs, with real children: their manifests and outcomes."""
    folder, bundles = tmp_path_factory.mktemp("program"), tmp_path_factory.mktemp("bundles")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    paths = json.loads(run_python(folder, "program.py", str(bundles), "all").splitlines()[-1])
    (folder / "program.py").unlink()
    code = "import sys, replay; print(*[replay.run(p, isolate=False).status for p in sys.argv[1:]])"
    statuses = run_python(folder, "-c", code, *paths.values()).split()
    return {
        name: (load(path).manifest, status)
        for (name, path), status in zip(paths.items(), statuses[-len(paths) :], strict=True)
    }


@pytest.mark.parametrize(
    ("name", "survived", "real", "status"),
    [
        ("shapes", True, False, "reproduced"),
        ("values", False, True, "reproduced"),
        ("full", None, True, "reproduced"),
        ("metadata", None, False, "passed"),
        ("small", None, True, "reproduced"),
    ],
)
def test_what_is_in_the_bundle_is_what_the_failure_needs(name, survived, real, status, programs):
    manifest, replayed = programs[name]
    assert [one.entry is not None for one in manifest.storages.values()] == [real]
    assert replayed == status
    found = manifest.substitution
    assert (None if found is None else found.survived) is survived
    assert found is None or (found.reproduces and found.seconds > 0)


def test_a_recorder_that_is_killed_while_it_checks_leaves_a_readable_bundle(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "killed"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    (path,) = (tmp_path / "killed").iterdir()
    with replay.load(path) as bundle:
        bundle.verify()
        assert bundle.manifest.substitution == PENDING
