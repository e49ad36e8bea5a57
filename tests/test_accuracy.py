"""Wrong numbers: compared as torch's own tools compare, recorded with the frame, reproduced with what was measured."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from processes import run_python
from programs import here, recorded

import replay
from replay.recording import Difference
from replay.torch_adapter import accuracy, deviation, hooks

# The tutorial on Inductor's CPU backend breaks `neg` like this and looks for the wrong numbers.
WRONG_NEG = """
from torch._inductor.codegen import cpp
def neg(x):
    return f"{x} * decltype({x})(2)"
cpp.CppOverrides.neg = cpp.CppVecOverrides.neg = staticmethod(neg)
"""
TUTORIAL = """
import torch
def foo1(x1, x2):
    a = torch.neg(x1)
    b = torch.maximum(x2, a)
    return torch.cat([b], dim=0)
torch.manual_seed(0)
x1, x2 = torch.randint(256, (1, 8), dtype=torch.float32), torch.randint(256, (8390, 8), dtype=torch.float32)
torch.compile(foo1)(-x1, x2)
"""


def plus(amount):
    """A backend whose first output is too large."""

    def backend(graph, example_inputs):
        def run(*inputs):
            first, *rest = graph.forward(*inputs)
            return (first + amount, *rest)

        return run

    return backend


def observed(program, *, tolerance=1e-3):
    """What a program's graphs computed otherwise, and what could not be compared."""
    torch._dynamo.reset()
    found, unsure = [], []
    asked = accuracy.Comparing(
        lambda one, before: found.append(one), unsure.append, tolerance, lambda c: True
    )
    with hooks.observing(lambda attempt: None, wrap=asked.wrap):
        program()
    return found, unsure


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory):
    """The tutorial's wrong neg, recorded; and its outcomes where Inductor is as broken, and where it is not."""
    place, bundles = tmp_path_factory.mktemp("tutorial"), tmp_path_factory.mktemp("bundles")
    (place / "tutorial.py").write_text(TUTORIAL, encoding="utf-8")
    record = (
        WRONG_NEG + "import replay, runpy, json\n"
        f"with replay.record({str(bundles)!r}, on='accuracy') as rec: runpy.run_path('tutorial.py')\n"
        "print(json.dumps([str(path) for path in rec.bundles]))"
    )
    (path,) = json.loads(run_python(place, "-c", record).splitlines()[-1])
    shutil.rmtree(place)
    again = (
        "import replay, json, dataclasses\n"
        f"sound = replay.run({path!r}, isolate=False)\n{WRONG_NEG}\n"
        f"broken = replay.run({path!r}, isolate=False)\n"
        f"eager = replay.run({path!r}, backend='aot_eager', isolate=False)\n"
        "print(json.dumps([dataclasses.asdict(one) for one in (broken, sound, eager)]))"
    )
    return path, *json.loads(run_python(bundles, "-c", again).splitlines()[-1])


def test_the_tutorials_wrong_neg_is_recorded_with_what_was_measured(tutorial):
    manifest = replay.load(tutorial[0]).manifest
    assert (manifest.event, manifest.error.stage, manifest.frame.function) == ("accuracy", "accuracy", "foo1")
    assert manifest.error.user_frames[-1].code == "return torch.cat([b], dim=0)"
    assert manifest.difference.where == "output 0"
    assert manifest.difference.error > 1
    assert all(one.entry is not None for one in manifest.storages.values())  # the values that it came from


def test_the_tutorials_wrong_neg_is_reproduced_with_the_measured_error(tutorial):
    path, broken, _, _ = tutorial
    assert broken["status"] == "reproduced"
    assert broken["error"]["message"] == broken["recorded_error"]["message"]
    assert broken["difference"]["error"] == replay.load(path).manifest.difference.error


def test_a_sound_inductor_and_another_backend_pass(tutorial):
    assert [one["status"] for one in tutorial[2:]] == ["passed", "passed"]


def test_a_graph_that_computes_the_same_is_no_difference():
    def program():
        loss = torch.compile(lambda x, w: torch.nn.functional.dropout(x @ w).sin().sum(), backend="aot_eager")
        loss(torch.randn(8, 8), torch.randn(8, 8, requires_grad=True)).backward()

    assert observed(program) == ([], [])


def test_the_tolerance_decides():
    def program():
        torch.compile(lambda x: x * 2, backend=plus(0.01))(torch.ones(4))

    (found,), _ = observed(program)
    assert (found.where, found.tolerance) == ("output 0", 1e-3)
    assert found.error == pytest.approx(0.01, rel=1e-3)
    assert observed(program, tolerance=0.1)[0] == []


def test_low_precision_is_held_against_float64_and_not_against_itself():
    def program():
        torch.manual_seed(0)
        rounded = lambda graph, inputs: lambda *a: (graph.forward(*(x.double() for x in a))[0].bfloat16(),)
        torch.compile(lambda x: x.exp() / 3, backend=rounded)(torch.randn(64).bfloat16() * 4)

    assert observed(program)[0] == []


def test_what_draws_other_random_numbers_is_said_not_to_be_comparable(inductor):
    def program():
        torch.compile(lambda x: torch.rand_like(x) + x)(torch.ones(4))

    found, (why,) = observed(program)
    assert found == []
    assert "fallback_random" in why


def test_the_program_gets_its_own_numbers_and_random_state(tmp_path):
    def program():
        torch.manual_seed(3)
        x = torch.ones(4)
        drop = torch.compile(lambda x: torch.nn.functional.dropout(x.add_(1)), backend="aot_eager")
        return drop(x).tolist(), x.tolist(), torch.rand(2).tolist()

    alone, results = program(), []
    run = recorded(tmp_path, lambda: results.append(program()), on="accuracy")
    assert results == [alone]
    assert (run.bundles, run.warnings) == ([], [])


def test_gradients_of_the_program_are_its_own(tmp_path):
    def program():
        weight = torch.linspace(0, 1, 5, requires_grad=True)
        torch.compile(lambda w: (w * w).sum(), backend="aot_eager")(weight).backward()
        return weight.grad.tolist()

    results = []
    recorded(tmp_path, lambda: results.append(program()), on="accuracy")
    assert results == [program()]


def test_the_recorded_inputs_are_those_before_the_graph_wrote_to_them(tmp_path):
    total = torch.zeros(3)
    wrong = plus(1.0)

    def program():
        def accumulate(total, value):
            total.add_(value)
            return total * 2

        torch.compile(accumulate, backend=wrong)(total, torch.ones(3))

    run = recorded(tmp_path, program, on="accuracy")
    assert total.tolist() == [1.0, 1.0, 1.0]
    outcome = here(run.bundles[0])
    assert outcome.status == "reproduced"
    assert outcome.difference == run.manifest.difference
    assert run.manifest.difference.reference == 2.0


def test_a_later_call_that_hits_the_cache_is_compared_as_well(tmp_path):
    def late(graph, example_inputs):
        return lambda *inputs: tuple(one + (inputs[0].sum() > 100) for one in graph.forward(*inputs))

    def program():
        double = torch.compile(lambda x: x * 2, backend=late)
        for size in (1.0, 2.0, 99.0):
            double(torch.full((4,), size))

    run = recorded(tmp_path, program, on="accuracy")
    assert here(run.bundles[0]).status == "reproduced"
    assert run.manifest.difference.compiled == 199.0


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"mode": "reduce-overhead"}, True), ({"options": {"triton.cudagraphs": True}}, True), ({}, False)],
)
def test_what_is_run_through_cuda_graphs_is_known(settings, expected):
    backends = []
    with hooks.observing(lambda attempt: backends.append(attempt.converter._torchdynamo_orig_backend)):
        torch._dynamo.reset()
        torch.compile(lambda x: x + 1, **settings)(torch.ones(2))
    assert [accuracy._reuses_memory(one) for one in backends] == [expected]


def test_only_selected_frames_are_compared(tmp_path):
    def wanted(x):
        return x + 1

    def other(x):
        return x + 2

    def program():
        for one in (wanted, other):
            torch.compile(one, backend=plus(1.0))(torch.ones(2))

    run = recorded(tmp_path, program, on="accuracy", only="wanted")
    assert [replay.load(path).manifest.frame.name for path in run.bundles] == ["wanted"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (([1.0, 2.0], [1.0, 2.0], [1.0, 2.0]), None),
        (([1.0, 3.0], [1.0, 2.0], [1.0, 2.0]), ((1,), 3.0, 2.0)),
        (([1.0, float("nan")], [1.0, 2.0], [1.0, 2.0]), ((1,), float("nan"), 2.0)),
    ],
)
def test_the_largest_deviation_is_found(values, expected):
    compiled, uncompiled, golden = (torch.tensor(one) for one in values)
    found = deviation.first([deviation.Trio("x", compiled, uncompiled, golden.double())], 1e-3)
    if expected is None:
        assert found is None
    else:
        assert found.index == expected[0]
        assert str(found.compiled) == str(expected[1])
        assert found.uncompiled == expected[2]


def test_another_shape_is_a_difference():
    found = deviation.first([deviation.Trio("x", torch.ones(2), torch.ones(3), torch.ones(3))], 1e-3)
    assert isinstance(found, Difference)
    assert found.error == float("inf")
