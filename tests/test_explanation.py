"""`explain`: what the compiler made of a frame, as data, on a terminal and as JSON."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace

import msgspec
import pytest
import torch
import torch._dynamo
import torch._dynamo.guards
import torch._dynamo.output_graph
from gold import assert_gold
from programs import ROOT, imported, python, recorded

import replay
from replay.cli import main
from replay.errors import UsageError
from replay.findings.explanation import Explanation
from replay.report.explanation import draw_explanation, summarise
from replay.report.plain import explanation_json
from replay.torch_adapter import complaints, dissection

USER = """
    import os

    import torch


    def squash(y):
        return y / (1 + y.abs())


    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(4, 4)
            self.scale = 2.0

        def forward(self, x):
            y = squash(squash(self.lin(x))) * self.scale
            torch._dynamo.graph_break()
            y = y + 1
            torch._dynamo.graph_break(msg="again")
            return y.relu()


    def branching(x):
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1


    def grow(x):
        rows = x.shape[0]
        return x.view(rows // 2, 2, -1).sum(0) + rows


    def mismatch(x):
        y = squash(x)
        return y @ x


    def fickle(gm, example_inputs):
        if os.environ.get("FICKLE"):
            os.abort()
        return gm.forward


    def plain(x):
        return squash(x) + 1


    def reads_log(x):
        return x + len(LOG.readline())


    def two_breaks():
        torch.compile(Block(), backend="eager")(torch.ones(3, 4))


    def branch():
        torch.compile(branching, backend="eager")(torch.ones(3))


    def dynamic():
        torch.compile(grow, backend="eager", dynamic=True)(torch.ones(6, 4))


    def fails():
        torch.compile(mismatch, backend="eager")(torch.ones(3, 4))


    def dies():
        torch.compile(plain, backend=fickle)(torch.ones(3))


    class Exported(torch.nn.Module):
        def forward(self, x):
            y = x.sin()
            torch._dynamo.graph_break()
            return y + 1


    def export():
        torch.export.export(Exported(), (torch.ones(3),), strict=True)


    LOG = open(__file__)


    def lacks():
        torch.compile(reads_log, backend="eager")(torch.ones(3))
"""

RESUME = ROOT / "recordings" / "resume_function.rec"
SHOWN = ("two_breaks", "branch", "dynamic", "fails", "resume")
GOLD_TORCH = "2.13"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """The first bundle of each program, from a package of a user's that is gone."""
    folder = tmp_path_factory.mktemp("users")
    made = {"folder": folder, "resume": RESUME}
    with imported(folder, "nets", USER) as module:
        for name in ("two_breaks", "branch", "dynamic", "fails", "dies", "export", "lacks"):
            made[name] = recorded(folder / name, getattr(module, name), on="all").bundles[0]
        module.LOG.close()
    return made


@pytest.fixture(scope="module")
def explained(bundles):
    """Explanations, made in this process."""
    return {name: replay.explain(bundles[name], isolate=False) for name in SHOWN}


def drawn(one, **options):
    stream = io.StringIO()
    draw_explanation(one, stream, **options)
    return stream.getvalue()


def ops(one):
    return [[op.target for op in graph.ops] for graph in one.graphs]


def steady(text, folder):
    """A report without what differs from run to run."""
    text = text.replace(str(folder), "/users").replace(torch.__version__, "TORCH")
    return re.sub(r"___\\d+", "___N", re.sub(r"\d+\.\d+ s\b", "0 s", text))


# --- as data


def test_each_graph_has_the_operations_of_its_stretch_of_the_function(explained):
    assert ops(explained["two_breaks"]) == [
        ["torch._C._nn.linear", *["Tensor.abs", "operator.add", "operator.truediv"] * 2, "operator.mul"],
        ["operator.add"],
        ["Tensor.relu"],
    ]


def test_every_graph_break_names_its_kind_the_users_line_and_torchs_advice(explained):
    breaks = explained["two_breaks"].breaks
    lines = [one.stack[-1].code for one in breaks]
    assert lines == ["torch._dynamo.graph_break()", 'torch._dynamo.graph_break(msg="again")']
    assert all("graph_break()" in one.kind and one.kind in one.reason for one in breaks)
    assert all(one.explanation and one.hints for one in breaks)
    assert not any(one.whole_frame for one in breaks)


def test_the_rest_of_a_broken_function_is_a_frame_that_says_what_it_resumes(explained):
    frames = explained["two_breaks"].frames
    assert [one.resume_of for one in frames] == [None, "forward", "forward"]
    assert [one.fate for one in frames] == ["compiled"] * 3
    assert len({one.compile_id for one in frames}) == 3


def test_a_branch_on_a_tensors_value_is_a_break_at_that_line(explained):
    (found,) = explained["branch"].breaks
    assert found.stack[-1].code == "if y.sum() > 0:"
    assert "operator.gt" in ops(explained["branch"])[0]


def test_an_operation_knows_the_lines_that_it_came_from_outermost_first(explained):
    op = next(one for one in explained["two_breaks"].graphs[0].ops if one.target == "Tensor.abs")
    assert [at.function for at in op.stack] == ["forward", "squash"]
    assert op.stack[-1].code == "return y / (1 + y.abs())"
    assert (op.output.dtype, op.output.shape) == ("float32", ("3", "4"))


def test_inlined_functions_are_counted_and_torchs_own_told_apart(explained):
    inlined = {one.function: one for one in explained["two_breaks"].frames[0].inlined}
    assert (inlined["squash"].times, inlined["squash"].of_torch) == (2, False)
    assert inlined["Linear.forward"].of_torch
    assert inlined["Linear.forward"].file == "torch/nn/modules/linear.py"


def test_inputs_say_what_they_are_and_where_a_call_takes_them_from(explained):
    inputs = {one.source: one for one in explained["two_breaks"].graphs[0].inputs}
    weight = next(one for source, one in inputs.items() if "weight" in source)
    assert (weight.kind, weight.tensor.shape, weight.tensor.requires_grad) == ("parameter", ("4", "4"), True)
    assert (inputs["L['x']"].kind, inputs["L['x']"].tensor.dtype) == ("tensor", "float32")


def test_dynamic_sizes_are_symbols_with_hints_ranges_and_sources(explained):
    (graph,) = explained["dynamic"].graphs
    rows = next(one for one in graph.symbols if one.sources == ("L['x'].size()[0]",))
    assert rows.hint == "6" and rows.range.startswith("[")
    x = next(one for one in graph.inputs if one.source == "L['x']")
    assert x.tensor.shape[0] == rows.name
    assert any(one.kind == "number" and one.value == rows.name for one in graph.inputs)


def test_guards_have_the_condition_and_the_line_that_needs_it(explained):
    guards = explained["two_breaks"].frames[0].guards
    scale = next(one for one in guards if one.source.endswith("].scale"))
    assert any("== 2.0" in code for code in scale.code)
    assert scale.place.code == "y = squash(squash(self.lin(x))) * self.scale"
    tensor = next(one for one in guards if one.source == "L['x']" and one.kind == "TENSOR_MATCH")
    assert any("torch.float32" in code for code in tensor.code)
    assert not any("#" in code for one in guards for code in one.code)


def test_conditions_on_sizes_are_among_the_guards(explained):
    guards = explained["dynamic"].frames[0].guards
    shapes = [one for one in guards if any("L['x'].size()[0] //" in code for code in one.code)]
    assert shapes and shapes[0].place.code.startswith("return x.view")


def test_of_a_frame_that_fails_the_graph_so_far_and_the_error_are_told(explained):
    one = explained["fails"]
    (frame,) = one.frames
    (graph,) = frame.graphs
    assert (frame.fate, graph.finished, one.graphs) == ("raised", False, ())
    assert "Tensor.abs" in [op.target for op in graph.ops]
    assert frame.error.user_frames[-1].code == "return y @ x"
    assert [inlined.function for inlined in frame.inlined] == ["squash"]


def test_a_resume_function_that_was_recorded_is_explained(explained):
    frame = explained["resume"].frames[-1]  # another Python comes to it from the root's beginning
    assert frame.resume_of == "step"
    assert frame.graphs[0].inputs


def test_an_export_that_goes_well_is_explained_too(bundles, monkeypatch):
    assert [one.fate for one in replay.explain(bundles["export"], isolate=False).frames] == ["raised"]
    monkeypatch.setattr(torch._dynamo, "graph_break", lambda: None)
    one = replay.explain(bundles["export"], isolate=False)
    assert one.outcome.status == "passed"
    assert [frame.fate in ("traced", "compiled") for frame in one.frames] == [True]  # torch 2.9 compiles it
    assert ops(one) == [["Tensor.sin", "operator.add"]]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_backend_does_not_change_what_dynamo_made(backend, bundles, explained):
    other = replay.explain(bundles["two_breaks"], backend, isolate=False)
    assert ops(other) == ops(explained["two_breaks"])


def test_nothing_of_torch_stays_exchanged(bundles):
    owners = (
        (torch._dynamo.output_graph.OutputGraph, "cleanup"),
        (torch._dynamo.output_graph.OutputGraph, "call_user_compiler"),
        (torch._dynamo.guards.CheckFunctionManager, "__init__"),
    )
    before = [getattr(owner, name) for owner, name in owners]
    replay.explain(bundles["branch"], isolate=False)
    assert [getattr(owner, name) for owner, name in owners] == before


def test_what_cannot_be_described_is_named_and_does_not_change_the_frame(bundles, monkeypatch):
    def refuse(*words, **options):
        raise RuntimeError("a property of the user's")

    monkeypatch.setattr(dissection, "describe_graph", refuse)
    one = replay.explain(bundles["branch"], isolate=False)
    assert (one.outcome.status, [frame.fate for frame in one.frames]) == ("reproduced", ["compiled"] * 2)
    assert "graph 0: describing it raised RuntimeError: a property of the user's" in one.unknown
    assert "not known  graph 0" in drawn(one)


def test_an_uncompiled_replay_has_nothing_to_explain(bundles):
    with pytest.raises(UsageError, match="nothing is compiled"):
        replay.explain(bundles["branch"], "uncompiled")


def test_torchs_text_is_split_into_its_parts_and_other_text_is_a_kind():
    text = "Kind\n  Explanation: two\n words\n  Hint: one\n  Hint: two\n\n  Developer debug context: c\n\n For more"
    found = complaints.describe_break(text, ())
    assert (found.kind, found.explanation, found.hints) == ("Kind", "two words", ("one", "two"))
    plain = complaints.describe_break("generic_jump TensorVariable()", ())
    assert (plain.kind, plain.explanation, plain.hints) == ("generic_jump TensorVariable()", "", ())


# --- for people


@pytest.mark.skipif(
    not torch.__version__.startswith(GOLD_TORCH),
    reason=f"the gold files hold the words of torch {GOLD_TORCH}",
)
@pytest.mark.parametrize("name", SHOWN)
def test_an_explanation_looks_as_the_gold_file(name, explained, bundles, monkeypatch):
    for variable in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    assert_gold(f"explanation_{name}.txt", steady(drawn(explained[name]), bundles["folder"]))


def test_all_but_the_title_source_paths_and_messages_of_torch_fits_80_columns(explained):
    for one in explained.values():
        wide = [line for line in drawn(one).splitlines()[1:] if len(line) > 80]
        assert all("^ " in line or "/" in line or " | " in line for line in wide), wide


def test_verbose_shows_every_guard_whole(explained):
    one = explained["two_breaks"]
    text = drawn(one, verbose=1)
    assert all(code.strip() in text for frame in one.frames for guard in frame.guards for code in guard.code)
    assert "Linear.forward" in text and len(text) > len(drawn(one))


def test_a_source_line_shows_what_became_of_it(explained):
    lines = drawn(explained["branch"]).splitlines()
    at = next(number for number, line in enumerate(lines) if "if y.sum() > 0:" in line)
    assert "graph 0: Tensor.sum, operator.gt" in lines[at + 1]
    assert "graph break 1" in lines[at + 2]


def test_terminal_escapes_of_a_bundle_come_out_escaped(explained):
    one = explained["branch"]
    frame = replace(one.frames[0], function="f\x1b[2J", breaks=(replace(one.breaks[0], kind="\x1b]0;x\x07"),))
    assert "\x1b" not in drawn(replace(one, frames=(frame,), function="\x1b[1m"))


def test_json_is_complete_and_reads_back_as_the_same_data(explained):
    one = explained["two_breaks"]
    found = json.loads(explanation_json(one))
    assert "texts" not in found
    assert len(found["frames"][0]["guards"]) == len(one.frames[0].guards)
    again = msgspec.convert(found, Explanation, strict=False)
    assert (again.frames, again.breaks) == (one.frames, one.breaks)


def test_the_summary_counts(explained):
    assert summarise(explained["branch"]).startswith("2 frames, 2 graphs, ")
    assert "1 graph break, " in summarise(explained["branch"])


# --- the command, and child processes


def test_the_command_explains_in_a_pipe_without_colour(bundles, tmp_path):
    done = python("-m", "replay", "explain", bundles["fails"], cwd=tmp_path, NO_COLOR="1")
    assert (done.returncode, "\x1b" in done.stdout) == (0, False), done.stderr
    assert "graph so far (tracing failed)" in done.stdout


def test_the_command_prints_json_and_takes_the_options_of_a_replay(bundles, capsys):
    words = ["--no-dynamic", "--logs", "dynamo", "--logs", "graph_breaks", "--without", "state.deterministic"]
    code = main(["explain", str(bundles["dynamic"]), *words, "--no-isolate", "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    found = json.loads(out)
    assert found["frames"][0]["graphs"][0]["symbols"] == []


@pytest.mark.parametrize(
    "words", [["--backend", "uncompiled"], ["--pdb"], ["--compare"], ["--backend", "egaer", "--no-isolate"]]
)
def test_what_cannot_be_explained_is_an_error_of_usage(words, bundles, capsys):
    assert main(["explain", str(bundles["branch"]), *words]) == 2
    assert words[0] in capsys.readouterr().err


def test_a_frame_that_lacks_something_exits_with_125_and_names_it(bundles, capsys):
    assert main(["explain", str(bundles["lacks"]), "--no-isolate"]) == 125
    told = capsys.readouterr().out
    assert "missing: " in told and "LOG" in told


def test_where_the_recorded_backend_ends_the_process_eager_explains(bundles):
    found = replay.explain(bundles["dies"], env={"FICKLE": "1"})
    assert (found.outcome.error.type, found.backend) == ("SIGABRT", "nets:fickle")
    assert "eager" in found.notes[0] and "SIGABRT" in found.notes[0]
    assert ops(found) == [["Tensor.abs", "operator.add", "operator.truediv", "operator.add"]]
    assert "nets" not in sys.modules
