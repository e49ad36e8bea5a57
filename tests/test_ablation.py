"""Which settings a failure needs: the search itself, real failures, the report, the command."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch._dynamo
from click.testing import CliRunner
from gold import assert_gold
from hypothesis import given
from hypothesis import strategies as st
from programs import here, no_relu, python, recorded, write

import replay
from replay.ablation import search, trying
from replay.cli.application import application
from replay.errors import ReplayError, UsageError
from replay.findings.ablation import Ablation, Setting
from replay.recording import ErrorInfo, Outcome
from replay.replayer import Trial, Trials, observe, settings
from replay.report.ablation import command_line, draw_ablation
from replay.report.plain import ablation_json

# --- the search


class Predicate:
    """Says which sets fail, and counts."""

    def __init__(self, fails):
        self.fails, self.asked = fails, []

    def __call__(self, sets):
        self.asked += sets
        return [self.fails(frozenset(one)) for one in sets]


def is_minimal(kept, fails):
    return fails(frozenset(kept)) and not any(fails(frozenset(kept) - {one}) for one in kept)


@given(st.integers(0, 12).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, max(n - 1, 0))))))
def test_of_a_failure_that_needs_some_things_exactly_those_are_found(case):
    count, needed = case
    needed &= set(range(count))
    kept = search.minimise(range(count), Predicate(lambda one: needed <= one))
    assert kept == tuple(sorted(needed))


@given(
    st.integers(0, 6),
    st.sets(st.frozensets(st.integers(0, 5))),
    st.integers(1, 4),
)
def test_of_any_failure_the_result_fails_and_nothing_in_it_can_be_left_out(count, failing, at_once):
    things = frozenset(range(count))

    def fails(one):
        return one == things or one in failing

    kept = search.minimise(range(count), Predicate(fails), at_once=at_once)
    assert is_minimal(kept, fails)


@given(st.sets(st.integers(0, 9), min_size=2, max_size=2), st.integers(1, 4))
def test_two_of_ten_are_found_in_few_trials_and_width_changes_no_result(needed, at_once):
    predicate = Predicate(lambda one: needed <= one)
    assert set(search.minimise(range(10), predicate, at_once=at_once)) == needed
    assert search.minimise(range(10), Predicate(predicate.fails)) == tuple(sorted(needed))
    assert len(set(predicate.asked)) <= 20 + 4 * at_once  # each one left out on its own and all pairs: 55


# --- names


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Bundles of failures that need different settings, recorded among others that they do not need."""
    folder = tmp_path_factory.mktemp("recorded")
    programs = {
        "none": rejected,
        "autocast": mixed,
        "calls": grown,
        "mode": projected,
    }
    return {name: one for name, run in programs.items() for one in recorded(folder / name, run).bundles}


def rejected():
    with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=5):
        torch.compile(lambda x: x.relu(), backend=no_relu, dynamic=True)(torch.ones(3))


def mixed():
    def put(table, index, x, weight):
        return table.scatter(0, index, torch.nn.functional.linear(x, weight))

    table, index = torch.zeros(4, 2), torch.zeros(2, 2, dtype=torch.int64)
    x, weight = torch.ones(2, 3), torch.ones(2, 3)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        torch.compile(put, backend="eager", fullgraph=True)(table, index, x, weight)


def grown():
    def static_only(gm, example_inputs):
        if any(isinstance(one, torch.SymInt) for one in example_inputs):
            raise NotImplementedError("static only")
        return gm.forward

    pool = torch.compile(lambda x: x.view(-1, 2).mean(0), backend=static_only)
    with torch.inference_mode():
        pool(torch.ones(4))
        pool(torch.ones(6))


def projected():
    with (
        torch.no_grad(),
        torch._inductor.config.patch(max_autotune_gemm_backends="TRITON", max_fusion_size=16),
    ):
        torch.compile(lambda x, w: x @ w, mode="max-autotune-no-cudagraphs")(
            torch.ones(8, 8), torch.ones(8, 8)
        )


def test_every_name_can_be_left_out_and_then_is_not_there(bundles):
    with replay.load(bundles["mode"]) as bundle:
        manifest = bundle.manifest
    names = settings.names(manifest)
    assert {"config.inductor.max_fusion_size", "compile.options.max_autotune", "state.grad_enabled"} <= set(
        names
    )
    bare = settings.reduced(manifest, names)
    assert (bare.config, bare.calls, bare.compile.options) == ({}, (), {})
    assert bare.state["grad_enabled"] is True
    assert bare.state["generators"] == manifest.state["generators"]
    assert bare.state["sdp"] == {}
    assert settings.reduced(manifest, ()) is manifest


def test_a_replay_without_what_the_failure_needs_passes(bundles):
    assert here(bundles["autocast"]).status == "reproduced"
    assert here(bundles["autocast"], without=["state.autocast"]).status == "passed"
    assert here(bundles["calls"], without=["calls"]).status == "passed"
    assert here(bundles["none"], without=["compile.dynamic", "state.grad_enabled"]).status == "reproduced"


def test_an_unknown_name_is_refused_with_the_near_ones(bundles):
    with pytest.raises(UsageError, match=r"--without state.autocats: .*did you mean state.autocast"):
        here(bundles["autocast"], without=["state.autocats"])
    with pytest.raises(UsageError, match="no such setting in this recording"):
        replay.ablate(bundles["autocast"], without=["state.autocats"])


# --- real failures; trials in this process, where a setting does not act at torch's import


class Here(Trials):
    """Trials one after the other in this process."""

    def _run(self, trial):
        try:
            observed = observe(self._bundle, trial.instruments, trial.options, isolate=False)
        except ReplayError as error:
            return replace(trial, refused=str(error))
        return replace(trial, outcome=observed.outcome, found=observed.found)


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(trying, "Trials", lambda bundle, jobs, **how: Here(bundle, jobs=1, **how))


def names(found):
    return [one.name for one in found]


@pytest.mark.usefixtures("in_this_process", "inductor")
@pytest.mark.parametrize(
    ("name", "needed", "among"),
    [
        ("none", [], ["config.dynamo.recompile_limit", "compile.dynamic", "state.grad_enabled"]),
        ("autocast", ["state.autocast"], ["compile.fullgraph", "state.grad_enabled"]),
        ("calls", ["calls"], ["state.inference_mode"]),
        (
            "mode",
            ["config.inductor.max_autotune_gemm_backends", "compile.options.max_autotune"],
            [
                "config.inductor.max_fusion_size",
                "compile.options.coordinate_descent_tuning",
                "state.grad_enabled",
            ],
        ),
    ],
)
def test_the_needed_settings_of_a_real_failure_are_found(name, needed, among, bundles):
    heard = []
    ablation = replay.ablate(bundles[name], heard=lambda trials, left: heard.append((trials, left)))
    assert ablation.outcome.status == "reproduced"
    assert names(ablation.needed) == needed
    assert set(among) <= set(names(ablation.not_needed))
    assert ablation.stable and not ablation.notes
    assert ablation.trials == len(heard) == heard[-1][0]
    assert sum(ablation.answers.values()) == ablation.trials - 1
    if not needed:
        assert ablation.trials == 2  # with all, and with none
    assert here(bundles[name], without=ablation.without).status == "reproduced"


@pytest.mark.usefixtures("in_this_process")
def test_what_the_command_chooses_is_fixed(bundles):
    ablation = replay.ablate(
        bundles["none"], dynamic=False, config={"torch._dynamo.config.recompile_limit": 3}
    )
    assert not {"compile.dynamic", "config.dynamo.recompile_limit"} & set(names(ablation.not_needed))
    assert "--no-dynamic" in command_line(ablation)


@pytest.mark.usefixtures("in_this_process")
def test_where_the_failure_does_not_come_back_there_is_nothing_to_ablate(bundles):
    ablation = replay.ablate(bundles["none"], backend="eager")
    assert (ablation.outcome.status, ablation.needed, ablation.not_needed) == ("passed", (), ())
    assert "nothing to ablate" in drawn(ablation)


def test_a_failure_that_comes_and_goes_is_called_unstable(bundles, monkeypatch):
    class Fickle(Here):
        """The failure needs autocast until the third trial, and then never comes back."""

        seen = 0

        def _run(self, trial):
            Fickle.seen += 1
            done = super()._run(trial)
            last = set(settings.names(self._bundle.manifest)) - set(trial.options["without"]) == {
                "state.autocast"
            }
            Fickle.alone = getattr(Fickle, "alone", 0) + last
            if last and Fickle.alone > 1:
                return Trial(trial.options, trial.instruments, refused="the process ended\nhow")
            return done

    monkeypatch.setattr(trying, "Trials", lambda bundle, **how: Fickle(bundle, jobs=1))
    ablation = replay.ablate(bundles["autocast"])
    assert names(ablation.needed) == ["state.autocast"]
    assert not ablation.stable
    assert ablation.answers["refused"] == 1
    assert (
        "1 of the trials could not be run, and count as not failing: the process ended" in ablation.notes[0]
    )
    assert "came once and then did not" in drawn(ablation)


@pytest.mark.usefixtures("in_this_process")
def test_a_replay_that_cannot_run_at_all_is_an_error(bundles):
    with pytest.raises(ReplayError, match="no such backend"):
        replay.ablate(bundles["none"], backend="egaer")
    with pytest.raises(TypeError, match="has no option 'pdb'"):
        replay.ablate(bundles["none"], pdb=True)


# --- every trial in a process of its own

SELECT = """
    import sys
    import torch
    import replay


    def select(x, sizes):
        if sizes.max().item() > 3:
            return x * 2
        return x + 1


    DYNAMIC = None
    torch._dynamo.config.capture_scalar_outputs = True
"""
TEN = """
    import torch.fx.experimental._config
    torch.fx.experimental._config.no_data_dependent_graph_break = True
    torch._dynamo.config.recompile_limit = 5
    torch._inductor.config.max_fusion_size = 16
    torch._functorch.config.activation_memory_budget = 0.5
    torch.set_float32_matmul_precision("high")
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_autocast_enabled("cpu", True)
    DYNAMIC = False
"""
RUN = """
    with replay.record(sys.argv[1]):
        torch.compile(select, backend="eager", dynamic=DYNAMIC)(torch.ones(3), torch.tensor([4, 2]))
"""
VARIABLE = "TORCHDYNAMO_NO_DATA_DEPENDENT_GRAPH_BREAK"
"""torch reads it when it is imported: the config value that it sets counts as the default."""


def ablated(folder, text, **environment):
    """The JSON of `--ablate` for a program that is gone."""
    program = write(folder, "program.py", text)
    python(program, folder / "bundles", cwd=folder, **environment)
    program.unlink()
    (bundle,) = (folder / "bundles").glob("*.rec")
    result = python("-m", "replay", bundle, "--ablate", "--json", cwd=folder)
    assert (result.returncode, result.stderr) == (1, "")
    found = json.loads(result.stdout)
    assert (found["status"], found["stable"]) == ("reproduced", True)
    return found, *([one["name"] for one in found[kind]] for kind in ("needed", "not_needed"))


def test_two_of_ten_changed_settings_are_found(tmp_path):
    found, needed, not_needed = ablated(tmp_path, SELECT + TEN + RUN)
    assert needed == ["config.dynamo.capture_scalar_outputs", "config.fx.no_data_dependent_graph_break"]
    assert sorted(not_needed) == [
        "compile.dynamic",
        "config.dynamo.recompile_limit",
        "config.functorch.activation_memory_budget",
        "config.inductor.max_fusion_size",
        "state.autocast",
        "state.default_dtype",
        "state.grad_enabled",
        "state.matmul_precision",
    ]
    assert found["trials"] <= 20


def test_a_variable_that_torch_reads_when_it_is_imported_is_found(tmp_path):
    found, needed, not_needed = ablated(tmp_path, SELECT + RUN, **{VARIABLE: "1"})
    assert needed == ["config.dynamo.capture_scalar_outputs", f"env.{VARIABLE}"]
    assert found["needed"][1] == {"name": needed[1], "recorded": "1", "default": None, "exact": True}
    assert not_needed == []


# --- the report and the command


ERROR = ErrorInfo("torch._inductor.exc.InductorError", "NoValidChoicesError: No choices", "inductor", "a-b")
ABLATION = Ablation(
    bundle="failures/project.rec",
    outcome=Outcome("failures/project.rec", "reproduced", "inductor", "Net.project", ERROR, ERROR),
    needed=(
        Setting("config.inductor.max_autotune_gemm_backends", "TRITON", "ATEN,TRITON,CPP"),
        Setting("config.inductor.post_grad_custom_pre_pass", "<function tidy>", None, exact=False),
        Setting("compile.dynamic", True, None),
        Setting("compile.options.max_autotune", True, False),
        Setting("state.autocast", {"cpu": {"enabled": True, "dtype": "bfloat16"}}, {}),
        Setting("state.grad_enabled", False, True),
        Setting("state.default_dtype", "float64", "float32"),
        Setting("state.sdp.flash", False, True),
        Setting("state.function_modes", ["nets.Mode"], []),
        Setting("env.TORCHINDUCTOR_FREEZING", "a b\x1b[2J", None),
        Setting("calls", 2, 0),
        Setting("backward", True, False),
    ),
    not_needed=(
        Setting("config.dynamo.recompile_limit", 5, 8),
        Setting("state.threads", 4, 2),
    ),
    trials=17,
    answers={"passed": 12, "reproduced": 4},
    seconds=61.5,
    options={"backend": "inductor", "without": ("state.anomaly",), "config": {"dynamo.verbose": True}},
)


def drawn(ablation, **how):
    stream = io.StringIO()
    draw_ablation(ablation, stream, **how)
    return stream.getvalue()


def test_the_report_says_what_is_needed_and_how_to_set_just_that():
    text = drawn(ABLATION)
    assert "\x1b" not in text
    assert_gold("ablation.txt", text)


def test_the_quiet_report_is_one_line():
    assert drawn(ABLATION, verbose=-1) == (
        "reproduced: Net.project under inductor, stage inductor, needs 12 of 14 recorded settings\n"
    )


def test_the_json_has_the_replay_and_the_settings():
    found = json.loads(ablation_json(ABLATION))
    assert (found["bundle"], found["status"], found["trials"]) == ("failures/project.rec", "reproduced", 17)
    assert found["outcome"]["error"]["stage"] == "inductor"
    assert found["not_needed"][0] == {
        "name": "config.dynamo.recompile_limit",
        "recorded": 5,
        "default": 8,
        "exact": True,
    }


def test_the_command_draws_the_ablation_and_ends_as_the_replay_does(bundles, in_this_process, monkeypatch):
    monkeypatch.setattr(sys.modules["replay.ablation"], "ablate", trying.ablate)
    result = CliRunner().invoke(application, [str(bundles["none"]), "--ablate"])
    assert result.exit_code == 1
    assert "needs none of the" in result.stdout
    assert f"python -m replay {bundles['none']} --without config.dynamo.recompile_limit," in result.stdout
    passed = CliRunner().invoke(application, [str(bundles["none"]), "--ablate", "--backend", "eager"])
    assert passed.exit_code == 0


@pytest.mark.parametrize("word", ["--pdb", "--no-isolate", "--logs=+dynamo"])
def test_an_ablation_refuses_what_needs_one_replay(word, bundles):
    result = CliRunner().invoke(application, [str(bundles["none"]), "--ablate", word])
    assert result.exit_code == 2


def test_the_command_takes_names_between_commas(bundles):
    words = ["--without", "state.autocast,compile.fullgraph", "--no-isolate", "-q"]
    result = CliRunner().invoke(application, [str(bundles["autocast"]), *words])
    assert (result.exit_code, result.stdout.partition(":")[0]) == (0, "passed")
    assert CliRunner().invoke(application, [str(Path(bundles["none"])), "--without", ","]).exit_code == 2
