"""`--artifacts`: what torch makes of a frame, as files of one new directory."""

from __future__ import annotations

import io
import json
import logging
from dataclasses import replace

import pytest
import torch
import torch._inductor.config
from programs import ROOT, imported, python, recorded, write

import replay
from replay.cli import main
from replay.errors import UsageError
from replay.recording import Artifacts
from replay.replayer import inventory, keeping
from replay.report.verdict import draw_verdict
from replay.torch_adapter import byproducts

USER = """
    import torch


    def squash(y):
        return y / (1 + y.abs())


    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(4, 4)

        def forward(self, x):
            return squash(self.lin(x)).softmax(-1)


    def breaking(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()


    def training():
        torch.compile(Net(), backend="aot_eager")(torch.ones(3, 4)).sum().backward()


    def broken():
        torch.compile(breaking, backend="eager")(torch.ones(3))
"""

CRASHING = """
    import os

    from torch._dynamo.backends.common import aot_autograd


    def in_the_middle(gm, example_inputs):
        return aot_autograd(fw_compiler=lambda gm, inputs: os.abort())(gm, example_inputs)
"""

RUN_ALL = """
    import runpy
    import sys

    scripts = sys.argv[1:]
    sys.argv[1:] = []
    for script in scripts:
        sys.argv[0] = script
        runpy.run_path(script, run_name="__main__")
        print("ran", script)
"""

LOWERING = ROOT / "recordings" / "inductor_where_uint16.rec"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("users")
    made = {}
    with imported(folder, "nets", USER) as module:
        for name in ("training", "broken"):
            made[name] = recorded(folder / name, getattr(module, name), on="all").bundles[0]
    return made


@pytest.fixture(scope="module")
def trained(inductor, bundles, tmp_path_factory):
    """A training frame under Inductor; the directory was moved since."""
    folder = tmp_path_factory.mktemp("trained")
    outcome = replay.run(
        bundles["training"], "inductor", backward=True, artifacts=folder / "made", isolate=False
    )
    return outcome, (folder / "made").rename(folder / "moved")


@pytest.fixture(scope="module")
def broken(bundles, tmp_path_factory):
    """A frame with a graph break, under the eager backend."""
    folder = tmp_path_factory.mktemp("broken") / "deep" / "made"
    return replay.run(bundles["broken"], "eager", artifacts=folder, isolate=False), folder


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def text(folder, pattern):
    (path,) = folder.glob(pattern)
    return path.read_text()


# --- what is in it


def test_of_a_training_frame_there_are_all_graphs_forward_and_backward(trained):
    _, folder = trained
    assert "linear" in text(folder, "frame_0_0/dynamo_graph.py")
    assert "tangents_1" in text(folder, "frame_0_0/aot_joint_graph.py")
    assert "aten.addmm" in text(folder, "frame_0_0/aot_forward_graph.py")
    assert "tangents_1" in text(folder, "frame_0_0/aot_backward_graph.py")


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(
    "name",
    [
        "ir_pre_fusion.txt",
        "ir_post_fusion.txt",
        "output_code.py",
        "fx_graph_runnable.py",
        "after_post_grad.py",
    ],
)
def test_inductor_leaves_its_graph_ir_and_code_of_both_directions(direction, name, trained):
    assert text(trained[1], f"inductor/*_{direction}_*/{name}").strip()


def test_kernel_sources_are_there_and_no_probe_of_the_processor(trained):
    sources = [path.read_text() for path in trained[1].glob("kernels/*.cpp")]
    assert any("cpp_prefix" in one and "void  kernel" in one for one in sources)
    assert not any("_chk_kernel" in one for one in sources)


def test_guards_bytecode_logs_and_the_structured_trace_are_there(trained):
    _, folder = trained
    assert "TENSOR_MATCH" in text(folder, "frame_0_0/guards.txt")
    assert "LOAD_FAST" in text(folder, "frame_0_0/bytecode_original.txt")
    assert "__compiled_fn" in text(folder, "frame_0_0/bytecode_modified.txt")
    assert "torchdynamo start tracing forward" in text(folder, "logs.txt")
    assert '"dynamo_output_graph"' in text(folder, "trace.log")
    assert "function  Net.forward" in text(folder, "frame_0_0/frame.txt")


def test_the_index_describes_every_file_and_the_outcome_lists_them(trained):
    outcome, folder = trained
    index = text(folder, "index.txt")
    assert set(outcome.artifacts.files) == names(folder)
    shown = names(folder) - {"index.txt"} - {one for one in names(folder) if inventory.INPUTS in one}
    assert all(f"{name}\n    " in index for name in shown)
    assert "Not here" not in index
    told = json.loads(text(folder, "outcome.json"))
    assert (told["status"], told["artifacts"]["files"]) == ("passed", list(outcome.artifacts.files))


def test_the_scripts_run_in_a_clean_process_wherever_they_lie(trained, tmp_path):
    _, folder = trained
    scripts = sorted(folder.rglob("*runnable.py"))
    assert len(scripts) == 3
    assert not any("trace.enabled" in one.read_text() or "CACHE_DIR" in one.read_text() for one in scripts)
    done = python(write(tmp_path, "run_all.py", RUN_ALL), *scripts, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [line.split()[-1] for line in done.stdout.splitlines() if "ran " in line] == [
        str(one) for one in scripts
    ]


def test_the_script_of_dynamos_graph_has_the_recorded_values(trained):
    assert "reader.storage(None" not in text(trained[1], "frame_0_0/dynamo_graph_runnable.py")
    assert len(list((trained[1] / "frame_0_0" / "inputs").rglob("*"))) > 1


def test_inputs_that_are_too_large_are_not_written_and_the_script_says_so(bundles, tmp_path, monkeypatch):
    monkeypatch.setattr(keeping, "LARGEST", 0)
    replay.run(bundles["broken"], "eager", artifacts=tmp_path / "made", isolate=False)
    assert "are made up" in text(tmp_path / "made", "frame_0_0/dynamo_graph_runnable.py")
    assert not any(inventory.INPUTS in name for name in names(tmp_path / "made"))


def test_a_graph_that_torch_cannot_write_down_has_the_reason_in_place_of_the_script(
    bundles, tmp_path, monkeypatch
):
    def refuse(*words):
        raise TypeError("no such graph")

    monkeypatch.setattr(byproducts, "script_of", refuse)
    outcome = replay.run(bundles["broken"], "eager", artifacts=tmp_path / "made", isolate=False)
    assert outcome.status == "reproduced"
    assert "TypeError: no such graph" in text(tmp_path / "made", "frame_0_0/dynamo_graph_no_script.txt")


def test_a_file_that_cannot_be_written_is_a_note_and_does_not_change_the_outcome(
    bundles, tmp_path, monkeypatch
):
    monkeypatch.setattr(inventory, "frame_folder", lambda compile_id: "logs.txt")  # a file, not a folder
    outcome = replay.run(bundles["broken"], "eager", artifacts=tmp_path / "made", isolate=False)
    assert outcome.status == "reproduced"
    assert any("not written: logs.txt/guards.txt: " in note for note in outcome.notes)


def test_under_eager_each_stretch_has_its_graph_and_the_break_its_reason(broken):
    outcome, folder = broken
    assert outcome.status == "reproduced"
    assert "sin" in text(folder, "frame_0_0/dynamo_graph.py")
    assert "cos" in text(folder, "frame_1_0/dynamo_graph.py")
    assert "graph_break" in text(folder, "frame_0_0/graph_break.txt")
    assert "torch_dynamo_resume_in_breaking_at_" in text(folder, "frame_1_0/frame.txt")


def test_the_index_says_what_the_backend_does_not_make(broken):
    index = text(broken[1], "index.txt")
    missing = index.partition("Not here: ")[2]
    assert "AOTAutograd's graphs, Inductor's IR, Inductor's output code, kernel sources." in missing
    assert "the backend 'eager' does not make them" in missing


def test_of_a_lowering_that_fails_everything_before_it_is_there(inductor, tmp_path, capfd):
    outcome = replay.run(LOWERING, artifacts=tmp_path / "made", isolate=False)
    found = names(tmp_path / "made")
    assert "TRACED GRAPH" not in capfd.readouterr().err
    assert outcome.status == "reproduced"
    assert {"frame_0_0/dynamo_graph.py", "frame_0_0/dynamo_graph_runnable.py", "outcome.json"} <= found
    assert any(name.startswith("frame_0_0/aot_") for name in found)
    assert any(name.endswith("/after_post_grad.py") for name in found)
    assert any(name.endswith("/ir_pre_fusion.txt") for name in found)
    assert not any(name.endswith("/output_code.py") or name.startswith("kernels/") for name in found)
    assert json.loads(text(tmp_path / "made", "outcome.json"))["status"] == "reproduced"


def test_what_was_made_before_a_crash_is_kept(bundles, tmp_path):
    write(tmp_path, "crashing.py", CRASHING)
    words = ("--backend", "crashing:in_the_middle", "--artifacts", "made", "--json")
    done = python("-m", "replay", bundles["training"], *words, cwd=tmp_path)
    told, folder = json.loads(done.stdout), tmp_path / "made"
    assert (done.returncode, told["error"]["type"]) == (3, "SIGABRT")
    assert set(told["artifacts"]["files"]) == names(folder)
    assert "tangents_1" in text(folder, "frame_0_0/aot_joint_graph.py")
    assert "linear" in text(folder, "frame_0_0/dynamo_graph.py")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".made")] == []


# --- where it goes


def test_a_directory_that_is_not_empty_is_refused_and_left_alone(bundles, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert main([str(bundles["broken"]), "--no-isolate", "--artifacts", str(tmp_path)]) == 2
    assert "not empty; name a new directory" in capsys.readouterr().err
    assert names(tmp_path) == {"notes.txt"}


def test_a_file_of_that_name_is_refused(bundles, tmp_path):
    (tmp_path / "made").write_text("")
    with pytest.raises(UsageError, match="no directory"):
        replay.run(bundles["broken"], artifacts=tmp_path / "made", isolate=False)


def test_an_empty_directory_is_taken(bundles, tmp_path):
    outcome = replay.run(bundles["broken"], artifacts=tmp_path, isolate=False)
    assert set(outcome.artifacts.files) == names(tmp_path)


def test_where_nothing_is_replayed_nothing_is_left(bundles, tmp_path):
    with pytest.raises(UsageError, match="egaer"):
        replay.run(bundles["broken"], "egaer", artifacts=tmp_path / "made", isolate=False)
    assert list(tmp_path.iterdir()) == []


def test_a_second_replay_has_only_its_own_files(bundles, broken, tmp_path):
    replay.run(bundles["broken"], "eager", artifacts=tmp_path / "again", isolate=False)
    inputs = {name for name in names(broken[1]) if inventory.INPUTS in name}
    assert names(tmp_path / "again") - inputs == names(broken[1]) - inputs


# --- what it leaves alone, and what it says


def test_torchs_logging_and_config_are_as_before(bundles, tmp_path):
    logs = [
        logging.getLogger(name) for name in ("torch", "torch._dynamo", "torch._inductor", "torch.__trace")
    ]

    def look():
        handlers = [[(id(one), len(one.filters)) for one in log.handlers] for log in logs]
        return handlers, [log.level for log in logs], torch._inductor.config.trace.enabled

    before = look()
    replay.run(bundles["broken"], artifacts=tmp_path / "made", isolate=False)
    assert look() == before


def test_messages_that_are_only_kept_do_not_show(bundles, tmp_path, capfd):
    replay.run(bundles["broken"], "eager", artifacts=tmp_path / "made", isolate=False)
    assert "torchdynamo start tracing" in text(tmp_path / "made", "logs.txt")
    assert "torchdynamo start tracing" not in capfd.readouterr().err


def test_the_verdict_names_the_directory_and_counts_the_files(broken):
    stream = io.StringIO()
    draw_verdict(replace(broken[0], artifacts=Artifacts("DIR", ("a", "b"))), stream)
    assert "artifacts: DIR (2 files; index.txt lists them)" in stream.getvalue()
