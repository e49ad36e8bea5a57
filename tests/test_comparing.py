"""`compare=True`: the whole frame compiled, against itself uncompiled and in float64."""

from __future__ import annotations

import io
import json

import pytest
import torch
import torch._dynamo.side_effects
from click.testing import CliRunner
from programs import here, recorded

import replay
from replay.cli.application import application
from replay.errors import UsageError
from replay.replayer import Trial, Trials, likeness, observe
from replay.replayer.twins import Run
from replay.report.plain import outcome_json
from replay.report.verdict import draw_verdict
from replay.torch_adapter import gradients, holdings


class Twice(torch.autograd.Function):
    """The identity, with a gradient that is twice as large."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def wrong_gradients(graph, example_inputs):
    """A backend whose outputs are right, and whose gradients are not."""
    return lambda *inputs: tuple(
        Twice.apply(one) if one.requires_grad else one for one in graph.forward(*inputs)
    )


def slightly_wrong(graph, example_inputs):
    """A backend whose outputs are too large by 0.01."""
    return lambda *inputs: tuple(one + 0.01 for one in graph.forward(*inputs))


def one_more(graph, example_inputs):
    """A backend whose whole numbers are too large by one."""
    return lambda *inputs: tuple(one + 1 for one in graph.forward(*inputs))


def forgets_writes(graph, example_inputs):
    """A backend that writes twice what the graph says into its inputs."""
    for node in graph.graph.nodes:
        if node.op == "call_method" and node.target == "add_":
            node.args = (node.args[0], 2)
    graph.recompile()
    return graph.forward


def raises_in_relu(graph, example_inputs):
    """A backend that rejects every graph."""
    raise ValueError("no graphs here")


class Counting(torch.nn.Module):
    """A module with side effects of every sort."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("seen", torch.zeros(3))
        self.calls, self.log = 0, []

    def forward(self, x):
        self.calls += 1
        self.log.append(self.calls)
        self.seen.add_(1)
        return {"activation": torch.relu(self.norm(self.linear(x))), "calls": self.calls}


def narrow_only(x: torch.Tensor) -> torch.Tensor:
    return x * 2


torch.library.define("replay_compare::narrow", "(Tensor x) -> Tensor")


@torch.library.impl("replay_compare::narrow", "CompositeExplicitAutograd")
def _narrow(x):
    if x.dtype != torch.float32:
        raise RuntimeError("float32 alone")
    return x * 2


@torch.library.register_fake("replay_compare::narrow")
def _narrow_fake(x):
    return torch.empty_like(x)


def relu(x, weight):
    return torch.relu(x @ weight)


def dropped(x):
    return torch.nn.functional.dropout(x) * 2


def noisy(x):
    return x + torch.rand_like(x)


def narrow(x):
    return torch.ops.replay_compare.narrow(x) + 1


def turned(z):
    return z * z.conj()


def shared(x, row):
    row.add_(1)
    return x.sum(0) + row


def positions(x):
    return x.argmax(), (x > 0).sum()


def undefined(x):
    return (x - x) / (x - x) + torch.tensor([0.0, 1.0])


def written(x):
    x.add_(1)
    return x * 2


def impossible(x):
    if x.sum() > 0:
        raise ValueError("no positive numbers")
    return x


PROGRAMS = {
    "counting": (Counting, lambda: (torch.randn(4, 3),)),
    "relu": (lambda: relu, lambda: (torch.randn(2, 3), torch.randn(3, 3, requires_grad=True))),
    "dropped": (lambda: dropped, lambda: (torch.randn(64),)),
    "noisy": (lambda: noisy, lambda: (torch.randn(64),)),
    "narrow": (lambda: narrow, lambda: (torch.randn(4),)),
    "turned": (lambda: turned, lambda: (torch.randn(4, dtype=torch.complex64),)),
    "positions": (lambda: positions, lambda: (torch.tensor([1.0, 3.0, 2.0]),)),
    "undefined": (lambda: undefined, lambda: (torch.ones(2),)),
    "written": (lambda: written, lambda: (torch.ones(2),)),
}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """A bundle of each program, recorded where it compiled well."""
    folder, made = tmp_path_factory.mktemp("bundles"), {}
    for name, (function, arguments) in PROGRAMS.items():
        torch.manual_seed(0)
        program = lambda f=function, a=arguments: torch.compile(f(), backend="eager")(*a())
        (made[name],) = recorded(folder / name, program, on="all").bundles
    x = torch.arange(6.0).view(2, 3)
    program = lambda: torch.compile(shared, backend="eager")(x, x[0])
    (made["shared"],) = recorded(folder / "shared", program, on="all").bundles
    program = lambda: torch.compile(impossible, backend="eager", fullgraph=True)(torch.ones(2))
    (made["impossible"],) = recorded(folder / "impossible", program).bundles
    return made


def notes_of(outcome):
    return "\n".join(outcome.notes)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", [*PROGRAMS, "shared"])
def test_what_is_compiled_well_does_not_differ(name, backend, bundles):
    outcome = here(bundles[name], backend=backend, compare=True)
    assert (outcome.status, outcome.difference) == ("passed", None), outcome
    assert outcome.comparison.skipped == ""
    assert outcome.comparison.outputs >= 1


def test_what_was_compared_is_counted_and_said(bundles):
    outcome = here(bundles["counting"], backend="eager", compare=True)
    found = outcome.comparison
    # written: the buffer of ours and the three of the batch norm; gradients: two weights, two biases
    assert (found.outputs, found.written, found.gradients) == (1, 4, 4)
    assert found.values >= 3  # the dictionary, and the number of calls in two places
    assert 0 < found.largest_error < 1e-5
    assert "compared: 1 output, 4 written inputs, 4 gradients, " in notes_of(outcome)
    assert set(outcome.seconds) == {"load", "compile", "run", "total", "compare"}


def test_wrong_numbers_are_told_with_the_graph_and_the_line_that_computes_them(bundles):
    outcome = here(bundles["counting"], backend="relu_accuracy_error_TESTING_ONLY", compare=True)
    assert (outcome.status, outcome.error.stage) == ("different", "accuracy")
    assert outcome.difference.where == "output['activation']"
    assert outcome.difference.error > 0.1 > outcome.difference.baseline
    assert outcome.difference.place[0] == __file__
    assert "torch.relu(" in outcome.error.user_frames[-1].code
    assert (outcome.comparison.blame.graph, outcome.comparison.blame.where) == (1, "output 0")
    assert "the first graph that computes something else is number 1" in notes_of(outcome)


def test_wrong_gradients_alone_are_a_difference(bundles):
    outcome = here(bundles["relu"], backend="test_comparing:wrong_gradients", compare=True)
    assert outcome.status == "different"
    assert outcome.difference.where == "gradient of weight"
    assert outcome.difference.compiled == pytest.approx(2 * outcome.difference.uncompiled)
    assert here(bundles["relu"], backend="test_comparing:wrong_gradients").status == "passed"


def test_a_wrongly_written_input_is_a_difference(bundles):
    outcome = here(bundles["written"], backend="test_comparing:forgets_writes", compare=True)
    assert outcome.status == "different"
    # the output is computed from it, and stands first
    assert (outcome.difference.where, outcome.difference.compiled) == ("output", 6.0)
    assert outcome.comparison.blame.graph == 1


def test_a_side_effect_that_dynamo_loses_is_a_difference_that_no_graph_is_at_fault_for(bundles, monkeypatch):
    effects = torch._dynamo.side_effects.SideEffects
    monkeypatch.setattr(effects, "codegen_update_mutated", lambda self, *rest, **options: None)
    outcome = here(bundles["counting"], backend="eager", compare=True)
    assert outcome.status == "different"
    assert outcome.difference.where == "self.calls, which the frame writes to"
    assert outcome.comparison.unlike == ("0", "1")
    assert outcome.error.message == "self.calls, which the frame writes to: 0 compiled, 1 uncompiled"
    assert outcome.comparison.blame is None
    assert "no graph alone" in notes_of(outcome)


def test_random_numbers_agree_under_inductor(bundles, inductor):
    outcome = here(bundles["dropped"], backend="inductor", compare=True)
    assert (outcome.status, outcome.comparison.skipped) == ("passed", "")
    assert outcome.comparison.reference == "float64"
    assert "compared under inductor.fallback_random=True" in notes_of(outcome)


def test_inductors_own_random_numbers_are_said_not_to_be_comparable(bundles, inductor):
    asked = {"inductor.fallback_random": False}
    outcome = here(bundles["dropped"], backend="inductor", compare=True, config=asked)
    assert outcome.status == "passed"
    assert "not compared: compiled code draws other random numbers" in notes_of(outcome)


def test_random_numbers_that_are_others_in_float64_make_no_reference(bundles):
    outcome = here(bundles["noisy"], backend="eager", compare=True)
    assert (outcome.status, outcome.comparison.reference) == ("passed", "uncompiled")
    assert "in float64 the frame draws other random numbers" in notes_of(outcome)


def test_where_float64_is_impossible_the_reference_is_uncompiled_code(bundles):
    outcome = here(bundles["narrow"], backend="eager", compare=True)
    assert outcome.comparison.reference == "uncompiled"
    assert "float32 alone" in notes_of(outcome)
    wrong = here(bundles["narrow"], backend="test_comparing:slightly_wrong", compare=True)
    assert wrong.difference.error == pytest.approx(0.01, rel=1e-3)
    assert wrong.difference.reference == wrong.difference.uncompiled


def test_where_uncompiled_code_raises_as_well_that_is_said(bundles):
    outcome = here(bundles["impossible"], compare=True)
    assert outcome.status == "reproduced"
    assert "not compared: uncompiled code raises as well: ValueError: no positive numbers" in notes_of(
        outcome
    )


def test_where_compiled_code_alone_raises_that_is_said(bundles):
    outcome = here(bundles["relu"], backend="test_comparing:raises_in_relu", compare=True)
    assert outcome.status == "different"
    assert outcome.error.stage == "backend"
    assert "not compared: compiled code raised; uncompiled code does not" in notes_of(outcome)


def test_complex_numbers_are_compared(bundles):
    outcome = here(bundles["turned"], backend="test_comparing:slightly_wrong", compare=True)
    assert outcome.status == "different"
    assert outcome.difference.error == pytest.approx(0.01, rel=1e-3)


def test_whole_numbers_are_compared(bundles):
    outcome = here(bundles["positions"], backend="test_comparing:one_more", compare=True)
    assert (outcome.difference.where, outcome.difference.compiled) == ("output[0]", 2.0)
    assert outcome.difference.uncompiled == 1.0


def test_memory_that_inputs_share_is_shared_in_every_run(bundles):
    outcome = here(bundles["shared"], backend="inductor", compare=True)
    assert (outcome.status, outcome.comparison.reference) == ("passed", "float64")
    assert outcome.comparison.written == 2  # one write, seen through both


def test_the_tolerance_decides(bundles):
    backend = "test_comparing:slightly_wrong"
    assert here(bundles["relu"], backend=backend, compare=True).status == "different"
    found = here(bundles["relu"], backend=backend, compare=True, tolerance=0.2)
    assert (found.status, found.comparison.tolerance) == ("passed", 0.2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": 0.1}, "nothing is compared; add --compare"),
        ({"tolerance": -1.0, "compare": True}, "at least 0"),
        ({"tolerance": float("nan"), "compare": True}, "at least 0"),
        ({"tolerance": True, "compare": True}, "at least 0"),
        ({"compare": True, "fake": True}, "--fake has none"),
    ],
)
def test_an_option_that_makes_no_sense_is_a_usage_error(options, words, bundles):
    with pytest.raises(UsageError, match=words):
        here(bundles["relu"], **options)


def test_a_frame_that_is_not_compiled_is_not_compared(bundles):
    outcome = here(bundles["relu"], backend="uncompiled", compare=True)
    assert (outcome.status, outcome.comparison.skipped) == ("passed", "the frame is not compiled")


def test_recorded_wrong_numbers_are_reproduced_with_and_without_compare(tmp_path):
    program = lambda: torch.compile(relu, backend="relu_accuracy_error_TESTING_ONLY")(
        torch.randn(2, 3), torch.randn(3, 3)
    )
    (path,) = recorded(tmp_path, program, on="accuracy").bundles
    plain, compared = here(path), here(path, compare=True)
    assert (plain.status, compared.status) == ("reproduced", "reproduced")
    assert compared.difference == plain.difference
    assert compared.comparison.where == "output"
    assert here(path, tolerance=100.0).status == "passed"


def test_the_table_and_the_json_show_the_difference(bundles):
    outcome = here(bundles["counting"], backend="relu_accuracy_error_TESTING_ONLY", compare=True)
    stream = io.StringIO()
    draw_verdict(outcome, stream)
    text = stream.getvalue()
    for name in ("what", "largest at", "compiled", "uncompiled", "reference", "error", "baseline"):
        assert f"\n  {name} " in text
    assert "(float64)" in text
    found = json.loads(outcome_json(outcome))
    assert found["difference"]["where"] == "output['activation']"
    assert found["comparison"]["blame"]["graph"] == 1


def test_the_command_compares_and_tells_by_its_exit_code(bundles):
    words = ["--compare", "--no-isolate", "--json", "--backend", "relu_accuracy_error_TESTING_ONLY"]
    wrong = CliRunner().invoke(application, [str(bundles["relu"]), *words])
    assert wrong.exit_code == 3
    right = CliRunner().invoke(application, [str(bundles["relu"]), "--compare", "--no-isolate", "--json"])
    assert right.exit_code == 0
    lonely = CliRunner().invoke(application, [str(bundles["relu"]), "--tolerance", "0.1"])
    assert lonely.exit_code == 2


def test_trials_take_the_option_as_any_other(bundles):
    trials = [Trial({"backend": "eager", "compare": True}), Trial({"tolerance": 1.0})]
    with replay.load(bundles["relu"]) as bundle, Trials(bundle) as place:
        good, refused = place.run(trials)
    assert good.outcome.status == "passed"
    assert good.outcome.comparison.gradients == 1
    assert good.found["compare"]["outputs"] == 1
    assert "--compare" in refused.refused


def test_an_observer_finds_what_was_compared(bundles):
    observed = observe(bundles["relu"], {}, {"compare": True, "backend": "eager"}, isolate=False)
    assert observed.found["compare"]["gradients"] == 1


class Cell:
    """An object of a user's, whose attributes run code when they are asked for."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __getattribute__(self, name):
        if name == "value":
            raise AssertionError("code of the user's ran")
        return object.__getattribute__(self, name)

    def __eq__(self, other):
        raise AssertionError("code of the user's ran")

    __hash__ = None


def gave(value):
    """A run that gave a value."""
    held = holdings.look({"output": value})
    return Run(output=held, after=holdings.look({}))


@pytest.mark.parametrize(
    ("compiled", "uncompiled", "where", "unlike"),
    [
        ([1, 2], (1, 2), "output", ("list of 2", "tuple of 2")),
        ([1, 2], [1], "output", ("list of 2", "list of 1")),
        ({"a": 1}, {"b": 1}, "output", ("dict of 1 with 'a'", "dict of 1 with 'b'")),
        (
            {"a": 1, "b": 2},
            {"b": 2, "a": 1},
            "output",
            ("dict of 2 with 'a', 'b'", "dict of 2 with 'b', 'a'"),
        ),
        (1, True, "output", ("1", "True")),
        ("x", "y", "output", ("'x'", "'y'")),
        (None, torch.ones(2), "output", ("None", "a tensor float32[2] on cpu")),
        (
            torch.ones(2),
            torch.ones(3),
            "output",
            ("a tensor float32[2] on cpu", "a tensor float32[3] on cpu"),
        ),
        (
            torch.ones(2),
            torch.ones(2).double(),
            "output",
            ("a tensor float32[2] on cpu", "a tensor float64[2] on cpu"),
        ),
        ([Cell(1)], [Cell(2)], "output[0].value", ("1", "2")),
    ],
)
def test_another_type_structure_or_length_is_a_difference(compiled, uncompiled, where, unlike):
    found, difference = likeness.compare(gave(compiled), gave(uncompiled), None, 1e-3)
    assert (difference.where, found.where, found.unlike) == (where, where, unlike)


@pytest.mark.parametrize(
    "value",
    [1, "x", float("nan"), (1, [2, {"k": 3}]), torch.tensor([float("nan"), 1.0]), {1, 2}, Cell(3), None],
)
def test_equal_values_do_not_differ(value):
    assert likeness.compare(gave(value), gave(value), None, 1e-3)[1] is None


def test_a_number_may_differ_as_a_tensor_may():
    assert likeness.compare(gave(1.0), gave(1.0001), None, 1e-3)[1] is None
    assert likeness.compare(gave(1.0), gave(1.1), None, 1e-3)[1].error == pytest.approx(0.1)


def test_what_holds_itself_is_looked_at_once():
    loop = [torch.ones(1)]
    loop.append(loop)
    assert set(holdings.look({"x": loop}).found) == {"x", "x[0]"}


def test_a_parameter_that_is_not_made_yet_is_no_obstacle():
    held = holdings.look({"layer": torch.nn.LazyLinear(3)})
    assert holdings.remember(held)["layer.weight"].version == 0
    assert gradients.Gradients(held.tensors()).taken == {}
