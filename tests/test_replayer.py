"""`run()`: a bundle and options in, an outcome out."""

from __future__ import annotations

import json
import linecache
import os
import random
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch._dynamo
from programs import ROOT, bare, here, imported, no_relu, python, recorded, write

import replay
from replay.errors import BundleError, ReplayError, UsageError
from replay.torch_adapter import state

USER = """
    import torch

    LOG = open(__file__)
    TABLE = {"scale": 2, "shift": torch.ones(3)}
    CALLS = []


    def no_relu(gm, example_inputs):
        for node in gm.graph.nodes:
            if "relu" in str(node.target):
                raise ValueError("no relu here")
        return gm.forward


    def activate(x):
        return x.relu()


    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            y = self.linear(x) * TABLE["scale"] + TABLE["shift"]
            return activate(y)


    def with_log(x, use):
        y = x.relu()
        if use:
            LOG.readline()
        return y


    def breaking(x):
        torch._dynamo.graph_break()
        return x + 1


    def many(x, name):
        return x + len(name)


    def module_fails():
        torch.compile(Block(), backend=no_relu)(torch.ones(2, 3))


    def untouched():
        torch.compile(with_log, backend=no_relu)(torch.ones(3), False)


    def touched():
        torch.compile(with_log, backend=no_relu)(torch.ones(3), True)


    def full():
        torch.compile(breaking, backend="eager", fullgraph=True)(torch.ones(3))


    def limit():
        function = torch.compile(many, backend="eager", fullgraph=True)
        for number in range(10):
            function(torch.ones(3), str(number))


    def dynamic():
        def static_only(gm, example_inputs):
            if any(isinstance(one, torch.SymInt) for one in example_inputs):
                raise NotImplementedError("static only")
            return gm.forward

        torch.compile(lambda x: x[: x.shape[0] // 2] + 1, backend=static_only, dynamic=True)(torch.ones(6))
"""
PROGRAMS = ("module_fails", "untouched", "touched", "full", "limit", "dynamic")


@pytest.fixture(scope="session")
def bundles(tmp_path_factory):
    """A bundle of each program of a user's package that is gone."""
    folder = tmp_path_factory.mktemp("users")
    made = {}
    with imported(folder, "users_package", USER) as module:
        for name in PROGRAMS:
            (made[name],) = recorded(folder / name, getattr(module, name)).bundles
        module.LOG.close()
    return made


@pytest.mark.parametrize("name", sorted({*PROGRAMS} - {"touched"}))
def test_a_recorded_failure_is_reproduced_with_its_text_where_the_package_is_absent(name, bundles):
    recorded_error = replay.load(bundles[name]).manifest.error
    outcome = here(bundles[name])
    assert (outcome.status, outcome.missing) == ("reproduced", () if name != "untouched" else outcome.missing)
    assert (outcome.error.type, outcome.error.message) == (recorded_error.type, recorded_error.message)
    assert outcome.error.fingerprint == recorded_error.fingerprint
    assert outcome.error.user_frames == recorded_error.user_frames
    assert outcome.recorded_error == recorded_error
    assert "users_package" not in sys.modules


@pytest.mark.parametrize(
    ("name", "options", "status"),
    [
        ("module_fails", {"backend": "eager"}, "passed"),
        ("module_fails", {"backend": "aot_eager"}, "passed"),
        ("module_fails", {"backend": "programs:no_relu"}, "reproduced"),
        ("module_fails", {"backend": "test_replayer:other_failure"}, "different"),
        ("module_fails", {"fullgraph": True}, "reproduced"),
        ("full", {"fullgraph": False}, "passed"),
        ("full", {"backend": "aot_eager"}, "reproduced"),
        ("limit", {"recompile_limit": 20}, "passed"),
        ("limit", {"recompile_limit": 2}, "reproduced"),
        ("limit", {"config": {"dynamo.recompile_limit": 20}}, "passed"),
        ("limit", {"config": {"torch._dynamo.config.recompile_limit": 20}}, "passed"),
        ("limit", {"recompile_limit": 20, "accumulated_recompile_limit": 3}, "different"),
        ("limit", {"fullgraph": False}, "different"),
        ("limit", {"dynamic": True}, "reproduced"),
        ("dynamic", {"dynamic": False}, "passed"),
        ("untouched", {"backend": "eager"}, "passed"),
        ("touched", {"backend": "eager"}, "missing"),
    ],
)
def test_options_decide_the_status(name, options, status, bundles):
    outcome = here(bundles[name], **options)
    assert outcome.status == status, outcome
    assert outcome.backend == options.get("backend", replay.load(bundles[name]).manifest.compile.backend)


def other_failure(gm, example_inputs):
    raise TypeError("another failure")


@pytest.mark.usefixtures("inductor")
def test_inductor_and_its_modes_are_backends_too(bundles):
    assert here(bundles["module_fails"], backend="inductor").status == "passed"
    assert (
        here(bundles["module_fails"], backend="inductor", mode="max-autotune-no-cudagraphs").status
        == "passed"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend": "egaer"}, "did you mean 'eager'"),
        ({"backend": "no_such_module_x:f"}, "cannot import"),
        ({"mode": "reduce-overhead"}, "only the inductor backend has modes"),
        ({"mode": "fast", "backend": "inductor"}, "knows default"),
        ({"config": {"dynamo.no_such": 1}}, "unknown to this torch"),
        ({"config": {"dynamo.recompile_limit": "x"}}, "must be int"),
        ({"recompile_limit": 0}, "at least 1"),
        ({"recompile_limit": True}, "whole number"),
        ({"recompile_limit": "8"}, "whole number"),
        ({"accumulated_recompile_limit": -1}, "--accumulated-recompile-limit -1"),
        ({"env": {"1X": "y"}}, "NAME=VALUE"),
        ({"env": {"X": 1}}, "NAME=VALUE"),
        ({"function": ""}, "function pattern"),
        ({"function": 3}, "function pattern"),
        ({"function": "nothing_like_it"}, "matches no function; compiled here would be: .*Block.forward"),
        ({"logs": "+dynmo"}, "did you mean dynamo"),
        ({"without": ["state.nothing"]}, "no such setting in this recording"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_a_usage_error(options, words, bundles):
    with pytest.raises(UsageError, match=words):
        here(bundles["module_fails"], **options)


def test_a_log_spec_that_torch_does_not_take_is_a_usage_error(bundles):
    with pytest.raises(UsageError, match="--logs 'nonsense'"):
        replay.run(bundles["module_fails"], logs="nonsense")


@pytest.mark.parametrize(
    "pattern", ["forward", "Block.forward", "Block.*", re.compile("Block"), ["x", "forward"]]
)
def test_function_compiles_what_it_names(pattern, bundles):
    outcome = here(bundles["module_fails"], function=pattern)
    assert outcome.status == "reproduced"
    assert [frame.function for frame in outcome.frames] == ["Block.forward"]


def test_function_compiles_an_inner_function_and_leaves_the_frame_uncompiled(bundles):
    outcome = here(bundles["module_fails"], function="activate")
    assert [frame.function for frame in outcome.frames] == ["activate"]
    assert outcome.status == "reproduced"
    passed = here(bundles["module_fails"], function="activate", backend="eager")
    assert (passed.status, [frame.compiles for frame in passed.frames]) == ("passed", [1])


def test_function_turns_fullgraph_off_where_it_leaves_the_frame_out_and_says_so_once(bundles):
    with pytest.raises(UsageError, match="matches no function"):
        here(bundles["full"], function="nothing")
    outcome = here(bundles["limit"], function="m*")
    assert outcome.status == "reproduced"
    assert not [note for note in outcome.notes if "fullgraph" in note]


def test_frames_are_counted_with_their_compilations_and_graph_breaks(bundles, tmp_path):
    torch._dynamo.reset()
    torch.compile(lambda x: (torch._dynamo.graph_break(), x + 1)[1], backend="eager")(torch.ones(2))
    outcome = here(bundles["full"], fullgraph=False)
    root, resumed = outcome.frames
    assert (root.function, root.compiles, root.graph_breaks) == ("breaking", 1, 1)
    assert "resume_in_breaking" in resumed.function
    assert (resumed.compiles, resumed.graph_breaks) == (1, 0)
    assert root.file.endswith("users_package.py")
    assert set(outcome.seconds) == {"load", "compile", "run", "total"}
    assert all(seconds >= 0 for seconds in outcome.seconds.values())
    assert outcome.seconds["compile"] <= outcome.seconds["total"]


def test_a_placeholder_that_is_used_is_named_as_missing(bundles):
    outcome = here(bundles["touched"], backend="eager")
    assert outcome.status == "missing"
    assert any("LOG" in one.name for one in outcome.missing), outcome.missing
    manifest = replay.load(bundles["touched"]).manifest
    assert [one.type for one in manifest.missing] == ["_io.TextIOWrapper"]


def test_a_run_that_fails_only_while_running_is_told_from_one_that_fails_to_compile(tmp_path):
    def index(x, at):
        return x.relu()[at]

    def program():
        torch.compile(index, backend=no_relu)(torch.ones(3), torch.tensor([7]))

    (bundle,) = recorded(tmp_path, program).bundles
    outcome = here(bundle, backend="eager")
    assert (outcome.status, outcome.error.stage, outcome.error.type) == ("different", "runtime", "IndexError")


def test_system_exit_in_the_frame_is_an_outcome(bundles):
    outcome = here(bundles["module_fails"], backend="test_replayer:leave")
    assert (outcome.status, outcome.error.type) == ("different", "SystemExit")


def leave(gm, example_inputs):
    sys.exit(3)


def trace_of_everything():
    from replay.torch_adapter import configs

    return {
        "environ": dict(os.environ),
        "modules": {name for name in sys.modules if "users" in name},
        "linecache": {name for name in linecache.cache if "users" in name},
        "state": state.capture(),
        "generators": state.generators(),
        "configs": configs.changed(),
        "recursion": sys.getrecursionlimit(),
        "path": list(sys.path),
        "hooks": sys.excepthook,
    }


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("module_fails", {}),
        (
            "module_fails",
            {"backend": "aot_eager", "env": {"REPLAY_TEST_X": "1"}, "config": {"dynamo.verbose": True}},
        ),
        ("touched", {"backend": "eager"}),
        ("limit", {"recompile_limit": 3}),
        ("module_fails", {"function": "nothing"}),
        ("module_fails", {"config": {"dynamo.nothing": 1}}),
    ],
)
def test_a_replay_in_this_process_leaves_no_trace(name, options, bundles):
    bare(lambda: here(bundles[name]))  # what is imported once stays imported
    with (
        torch.no_grad(),
        torch.autocast("cpu", torch.bfloat16),
        torch._dynamo.config.patch(recompile_limit=5),
    ):
        random.seed(4)
        before = trace_of_everything()
        bare(lambda: here(bundles[name], **options))
        assert trace_of_everything() == before


def test_a_replay_twice_is_the_same(bundles):
    one, other = here(bundles["module_fails"]), here(bundles["module_fails"])
    assert replace(one, seconds={}, frames=()) == replace(other, seconds={}, frames=())


def test_an_open_bundle_stays_open_and_a_path_is_closed_again(bundles):
    with replay.load(bundles["full"]) as bundle:
        assert here(bundle).status == "reproduced"
        assert bundle.manifest.frame.name == "breaking"
        assert bundle.values()


def test_a_user_module_of_the_same_name_is_not_taken_for_the_recorded_one(bundles, tmp_path):
    with imported(
        tmp_path, "users_package", "def activate(x):\n    raise RuntimeError('the wrong one')\n"
    ) as own:
        assert here(bundles["module_fails"]).status == "reproduced"
        assert sys.modules["users_package"] is own


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x05\x06" + b"\0" * 18])
def test_a_file_that_is_no_bundle_is_a_bundle_error(content, tmp_path):
    path = tmp_path / "x.rec"
    path.write_bytes(content)
    with pytest.raises(BundleError, match=r"x\.rec"):
        here(path)
    with pytest.raises(BundleError):
        here(tmp_path / "absent.rec")


# In a child process. One child costs seconds: as many cases as possible share one.

ABORTS = """
    import ctypes, os, signal, sys, time

    def abort(gm, example_inputs):
        os.abort()

    def segfault(gm, example_inputs):
        ctypes.string_at(0)

    def quit(gm, example_inputs):
        os._exit(7)

    def sleep(gm, example_inputs):
        time.sleep(100)

    def grow(gm, example_inputs):
        held = []
        while True:
            held.append(bytearray(b"x") * (64 << 20))

    def dies_running(gm, example_inputs):
        def run(*args):
            os.abort()
        return run
"""

DRIVER = """
    import json, sys
    from concurrent.futures import ThreadPoolExecutor
    from dataclasses import asdict
    import replay
    from replay.errors import ReplayError

    bundle, cases = sys.argv[1], json.loads(sys.argv[2])
    def answer(case):
        try:
            return asdict(replay.run(bundle, **case))
        except ReplayError as error:
            return {"raised": type(error).__name__, "message": str(error)}

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(answer, cases))
    print(json.dumps({"answers": answers, "torch": "torch" in sys.modules}, default=str))
"""

CASES = {
    "sleep": {"backend": "crashing:sleep", "timeout": 15},
    "plain": {},
    "backend": {"backend": "eager"},
    "abort": {"backend": "crashing:abort"},
    "segfault": {"backend": "crashing:segfault"},
    "quit": {"backend": "crashing:quit"},
    "running": {"backend": "crashing:dies_running"},
    "usage": {"backend": "egaer"},
    "negative": {"timeout": -1},
}


@pytest.fixture(scope="session")
def isolated(bundles, tmp_path_factory):
    """Outcomes of replays in children, from a directory of a maintainer's own, by name of the case."""
    folder = tmp_path_factory.mktemp("maintainer")
    write(folder, "crashing.py", ABORTS)
    driver = write(folder, "driver.py", DRIVER)
    done = python(driver, bundles["module_fails"], json.dumps(list(CASES.values())), cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["torch"] is False, "the parent of an isolated replay needs no torch"
    return dict(zip(CASES, found["answers"], strict=True))


def test_a_child_gives_the_outcome_that_this_process_gives(isolated, bundles):
    outcome = here(bundles["module_fails"])
    assert isolated["plain"]["status"] == "reproduced"
    assert isolated["plain"]["error"]["message"] == outcome.error.message
    assert isolated["plain"]["error"]["fingerprint"] == outcome.error.fingerprint
    assert isolated["backend"]["status"] == "passed"
    assert isolated["plain"]["bundle"] == str(bundles["module_fails"])


@pytest.mark.parametrize(
    ("case", "kind", "stage", "words"),
    [
        ("abort", "SIGABRT", "backend", "crashed, SIGABRT"),
        ("segfault", "SIGSEGV", "backend", "crashed, SIGSEGV"),
        ("quit", "exit code 7", "backend", "exit code 7"),
        ("running", "SIGABRT", "runtime", "phase 'run'"),
        ("sleep", "Timeout", "backend", "timeout, 15 s"),
    ],
)
def test_whatever_becomes_of_a_child_is_an_outcome(case, kind, stage, words, isolated):
    outcome = isolated[case]
    assert (outcome["status"], outcome["error"]["type"], outcome["error"]["stage"]) == (
        "different",
        kind,
        stage,
    )
    assert words in outcome["error"]["message"]


def test_a_crash_shows_where(isolated):
    assert "segfault" in isolated["segfault"]["error"]["traceback"]


def test_a_child_passes_errors_of_usage_on(isolated):
    assert (isolated["usage"]["raised"], isolated["negative"]["raised"]) == ("UsageError", "UsageError")
    assert "did you mean 'eager'" in isolated["usage"]["message"]


def ending(monkeypatch, **fields):
    """Let the child end as told, without one."""
    from replay import isolation

    plain = {
        "ending": "answered",
        "answer": None,
        "reason": "",
        "phase": "compile",
        "stderr": "",
        "seconds": 1.0,
    }
    result = isolation.ChildResult(**{**plain, **fields})
    monkeypatch.setattr(isolation, "call", lambda *args, **options: result)


def test_running_out_of_memory_is_an_outcome(monkeypatch, bundles):
    ending(monkeypatch, ending="memory", reason="21.6 GB")
    outcome = replay.run(bundles["full"])
    assert (outcome.status, outcome.error.type) == ("different", "OutOfMemory")


@pytest.mark.parametrize("phase", ["", "load"])
def test_a_child_that_ends_before_it_compiled_is_an_error_with_its_output(phase, monkeypatch, bundles):
    ending(monkeypatch, ending="crashed", reason="SIGILL", phase=phase, stderr="the last words\n")
    with pytest.raises(ReplayError, match=r"SIGILL.*\nthe last words"):
        replay.run(bundles["full"])


def test_options_that_are_no_plain_data_are_refused_by_name(bundles):
    with pytest.raises(UsageError, match=r"dynamo.verbose"):
        replay.run(bundles["full"], config={"dynamo.verbose": object()})


def test_replaying_needs_nothing_of_the_checkouts_folder(tmp_path):
    assert Path(replay.__file__).parent == ROOT / "replay"
