"""`crash_safe=True`: the frame is on disk before the step that kills the process, and nothing is left otherwise."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from processes import ROOT
from programs import recorded

import replay
from replay.recorder import precaution

# A process can die only once: each way is a fork of one process that has imported torch.
PROGRAM = """
import json, os, signal, sys, torch, replay

def operator(name, fatal):
    def implementation(x: torch.Tensor) -> torch.Tensor:
        if fatal and x.sum() > 5:
            os.kill(os.getpid(), signal.SIGSEGV)
        return x * 2
    made = torch.library.custom_op("precaution::" + name, implementation, mutates_args=())
    made.register_fake(lambda x: torch.empty_like(x))
    return made

boom, fine = operator("boom", True), operator("fine", False)
fine.register_autograd(lambda ctx, grad: boom(grad * 10))

def dying(graph, example_inputs):
    os.abort()

def compiling(x):
    return x.sin()

def running(x):
    return boom(x).cos()

def differentiated(x):
    return fine(x).sum()

def compiles():
    torch.compile(compiling, backend=dying)(torch.ones(2))

def runs():
    compiled = torch.compile(running, backend="aot_eager")
    compiled(torch.ones(2))
    compiled(torch.full((2,), 7.0))

def runs_backward():
    torch.compile(differentiated, backend="aot_eager")(torch.ones(3, requires_grad=True)).backward()

def is_killed():
    def killer(graph, example_inputs):
        return lambda *inputs: os.kill(os.getpid(), signal.SIGKILL)
    torch.compile(compiling, backend=killer)(torch.ones(2))

ended = {}
for step in (compiles, runs, runs_backward, is_killed):
    child = os.fork()
    if child == 0:
        with replay.record(step.__name__, crash_safe=True):
            before = torch.compile(lambda x: x + 1, backend="aot_eager")
            before(torch.ones(2, requires_grad=True))
            step()
        os._exit(0)
    ended[step.__name__] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(ended))
"""
STEPS = {
    "compiles": ("compiling", "backend", -signal.SIGABRT, "SIGABRT"),
    "runs": ("running", "runtime", -signal.SIGSEGV, "SIGSEGV"),
    "runs_backward": ("differentiated", "runtime", -signal.SIGSEGV, "SIGSEGV"),
    "is_killed": ("compiling", "runtime", -signal.SIGKILL, "SIGKILL"),
}


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """The directory of each crash, and how the process ended."""
    folder = tmp_path_factory.mktemp("crashes")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    (folder / "program.py").unlink()
    return folder, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_leaves_the_one_frame_that_was_in_danger(step, crashed):
    folder, ended = crashed
    function, stage, status, _ = STEPS[step]
    assert ended[step] == status
    (path,) = (folder / step).glob("*.rec")
    manifest = replay.load(path).manifest
    assert (manifest.frame.function, manifest.error.type) == (function, "ProcessDied")
    assert manifest.error.stage == stage
    assert path.name.startswith(f"{function}-ProcessDied-")


@pytest.mark.parametrize("step", ["compiles", "runs", "runs_backward"])
def test_the_replaying_process_dies_as_well_and_that_is_reproduced(step, crashed):
    folder, _ = crashed
    (path,) = (folder / step).glob("*.rec")
    outcome = replay.run(path)
    assert (outcome.status, outcome.error.type) == ("reproduced", STEPS[step][3])


def test_a_later_recorder_sweeps_what_dead_processes_hid(crashed):
    folder, _ = crashed
    directory = folder / "runs_backward"
    assert list(directory.glob(".crash-*")) != []
    recorded(directory, differentiate, crash_safe=True)
    assert list(directory.glob(".crash-*")) == []
    assert len(list(directory.glob("*.rec"))) == 1  # the crash's own stays


def differentiate():
    torch.compile(lambda x: (x * 2).sum(), backend="aot_eager")(torch.ones(2, requires_grad=True)).backward()


def test_where_all_goes_well_nothing_is_left(tmp_path):
    run = recorded(tmp_path / "failures", differentiate, crash_safe=True)
    assert (run.error, run.bundles, run.warnings) == (None, [], [])
    assert not (tmp_path / "failures").exists()


def test_the_frame_is_on_disk_while_it_is_compiled_run_and_differentiated(tmp_path):
    seen = {}

    def look(step):
        seen[step] = [replay.load(path).manifest.error.message for path in tmp_path.glob("*.rec")]

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            look("differentiated")
            return gradient

    def backend(graph, example_inputs):
        look("compiled")

        def run(x):
            look("run")
            return (Square.apply(x),)

        return run

    def program():
        torch.compile(lambda x: x * 2, backend=backend)(torch.ones(2, requires_grad=True)).sum().backward()

    recorded(tmp_path, program, crash_safe=True)
    message = "the process ended while this frame was being {}; the bundle was written before that"
    assert seen == {
        "compiled": [message.format("compiled")],
        "run": [message.format("run")],
        "differentiated": [message.format("run")],
    }
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_recorded_as_ever_and_its_precaution_goes(tmp_path):
    def program():
        torch.compile(lambda x: x + torch.ones(3), backend="eager")(torch.ones(2))

    run = recorded(tmp_path, program, crash_safe=True)
    assert [path.name for path in tmp_path.iterdir()] == [run.bundles[0].name]
    assert run.manifest.error.stage == "dynamo"


def test_a_disk_that_refuses_is_a_warning_and_the_program_goes_on(tmp_path):
    (tmp_path / "file").write_text("x")
    run = recorded(tmp_path / "file" / "failures", differentiate, crash_safe=True)
    assert run.error is None
    assert any("before it was compiled" in one for one in run.warnings)


def test_only_selected_frames_are_written_ahead(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(
        precaution.Precaution, "_begin", lambda self, attempt, *rest: written.append(attempt.code.co_name)
    )

    def wanted(x):
        return x + 1

    def program():
        for one in (wanted, lambda x: x + 2):
            torch.compile(one, backend="eager")(torch.ones(2))

    recorded(tmp_path, program, crash_safe=True, only="wanted")
    assert written == ["wanted", "wanted"]  # compiled, and run


def test_a_forked_child_removes_nothing_of_its_parents(tmp_path):
    steps = precaution.Precaution(tmp_path, None, None, None)
    kept = Path(tmp_path, "kept.rec")
    kept.write_text("x")
    steps._made[kept] = os.getpid() + 1
    steps._owner = os.getpid() + 1
    steps.clear()
    assert kept.exists()
