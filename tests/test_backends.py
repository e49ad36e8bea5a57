"""Backends by name: every one of torch's is listed and accepted, and those that fail on purpose fail as they should."""

from __future__ import annotations

import contextlib
import io
import json
from importlib.metadata import EntryPoint

import pytest
import torch
import torch._dynamo
from click.testing import CliRunner
from programs import ROOT, bare, here, python, recorded
from torch._dynamo.backends import debugging, registry

import replay
from replay.cli.application import application
from replay.errors import UsageError
from replay.report.backends import draw_backends
from replay.torch_adapter import backends, compiling

NEED_MORE = (
    "aot_eager_decomp_partition_with_mode",
    "dynamo_minifier_backend",
    "dynamo_accuracy_minifier_backend",
)


def activate(x, weight):
    return torch.relu(x @ weight) + 1


def program(backend, *, leaf=True):
    """A frame with torch.relu, forward and backward, that is healthy by itself."""

    def run():
        torch.manual_seed(0)
        weight = torch.randn(3, 3, requires_grad=True)
        weight = weight if leaf else weight * 1
        torch.compile(activate, backend=backend)(torch.randn(2, 3), weight).sum().backward()

    return run


def names(group):
    return [one.name for one in replay.backends() if one.group == group]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """The frame, recorded where it compiled well."""
    (path,) = recorded(tmp_path_factory.mktemp("healthy"), program("eager", leaf=False), on="all").bundles
    return path


def test_every_backend_that_torch_has_is_listed_once():
    listed = [one.name for one in replay.backends()]
    assert sorted(listed) == sorted({"uncompiled", *torch._dynamo.list_backends(exclude_tags=())})


def test_every_backend_of_torchs_debugging_module_is_described_and_in_its_group():
    own = {
        name
        for name, function in registry._COMPILER_FNS.items()
        if any(one is function for one in vars(debugging).values())
    }
    assert len(own) >= 15
    listed = {one.name: one for one in replay.backends()}
    for name in own:
        assert listed[name].group == ("testing only" if name.endswith("TESTING_ONLY") else "debugging")


@pytest.mark.parametrize("name", sorted({*names("debugging"), "torchscript"} - {*NEED_MORE}))
def test_a_debugging_backend_does_to_a_healthy_frame_what_it_does_without_replay(name, healthy, capsys):
    error = None
    if name != backends.UNCOMPILED:
        error = bare(program(compiling.resolve(name), leaf=False))
    outcome = here(healthy, backend=name, backward=True)
    if error is None:
        assert (outcome.status, outcome.error) == ("passed", None)
    else:  # TorchScript cannot read the graph modules of torch 2.13
        assert (outcome.status, outcome.error.message) == ("different", str(error))


def test_most_debugging_backends_find_nothing_wrong_with_a_healthy_frame(healthy):
    passed = [
        name
        for name in names("debugging")
        if name not in NEED_MORE and here(healthy, backend=name).status == "passed"
    ]
    assert {"uncompiled", "eager", "aot_eager", "aot_eager_decomp_partition", "eager_debug"} <= {*passed}


INDUCED = {
    "relu_compile_error_TESTING_ONLY": (
        "backend",
        "torch._dynamo.exc.BackendCompilerFailed",
        "torch._dynamo.backends.debugging.ReluCompileError",
    ),
    "relu_runtime_error_TESTING_ONLY": ("runtime", "AssertionError", None),
    "relu_accuracy_error_TESTING_ONLY": ("accuracy", "torch._dynamo.debug_utils.AccuracyError", None),
    "non_leaf_compile_error_TESTING_ONLY": (
        "backend",
        "torch._dynamo.exc.BackendCompilerFailed",
        "torch._dynamo.backends.debugging.TestingOnlyCompileError",
    ),
}


def test_each_backend_that_fails_on_purpose_is_known():
    assert sorted(names("testing only")) == sorted(INDUCED)


@pytest.mark.parametrize("name", INDUCED)
def test_a_backend_that_fails_on_purpose_induces_its_failure(name, healthy):
    outcome = here(healthy, backend=name, compare=True)
    stage, kind, inner = INDUCED[name]
    assert (outcome.status, outcome.error.stage) == ("different", stage)
    assert (outcome.error.type, outcome.error.inner_type) == (kind, inner)


def test_without_compare_wrong_numbers_pass(healthy):
    assert here(healthy, backend="relu_accuracy_error_TESTING_ONLY").status == "passed"


@pytest.mark.parametrize("name", INDUCED)
def test_a_failure_that_was_recorded_under_such_a_backend_is_reproduced(name, tmp_path):
    recorder = replay.record(tmp_path, on=("failure", "accuracy"))
    run = program(name, leaf=name != "non_leaf_compile_error_TESTING_ONLY")
    torch._dynamo.reset()
    raises = (
        contextlib.nullcontext() if INDUCED[name][0] == "accuracy" else pytest.raises(Exception, match="E")
    )
    with raises, recorder:  # an error of running code is seen where it leaves the block
        run()
    (path,) = recorder.bundles
    outcome = here(path)
    assert (outcome.status, outcome.error.stage, outcome.backend) == ("reproduced", INDUCED[name][0], name)
    assert outcome.error.type == INDUCED[name][1]
    assert here(path, backend="eager").status == "passed"


@pytest.mark.parametrize("name", NEED_MORE)
def test_a_backend_that_needs_more_than_its_name_says_so(name, healthy):
    with pytest.raises(UsageError, match=r"must be given (mode|compiler_name), which a name cannot say"):
        here(healthy, backend=name)


@pytest.mark.parametrize("name", [one.name for one in replay.backends() if one.lacks.endswith("absent")])
def test_a_backend_whose_package_is_absent_is_missing(name, healthy):
    outcome = here(healthy, backend=name)
    assert outcome.status == "missing"
    assert outcome.missing[0].name.startswith("the package ")


def test_a_backend_of_a_package_is_listed_with_its_module_and_not_imported(monkeypatch):
    entry = EntryPoint("someones", "someones_package.compiler:run", "torch_dynamo_backends")
    backends.names()  # torch looks for packages once
    monkeypatch.setitem(registry._BACKENDS, "someones", entry)
    found = next(one for one in replay.backends() if one.name == "someones")
    assert (found.group, found.words) == ("others", "registered by someones_package.compiler")


def test_a_backend_that_was_registered_here_is_listed_with_its_module(monkeypatch):
    monkeypatch.setitem(registry._BACKENDS, "own", None)
    monkeypatch.setitem(registry._COMPILER_FNS, "own", activate)
    activate._tags = ()
    found = next(one for one in replay.backends() if one.name == "own")
    assert found.words == f"registered by {__name__}"


def test_the_list_has_one_line_for_each_and_80_columns():
    stream = io.StringIO()
    draw_backends(replay.backends(), stream)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    for one in replay.backends():
        assert len([line for line in lines if line.split()[:1] == [one.name]]) == 1


def test_help_needs_no_bundle_and_takes_one():
    for words in (["--backend", "help"], [str(ROOT / "recordings/rank_of_four.rec"), "--backend", "help"]):
        result = CliRunner().invoke(application, words)
        assert result.exit_code == 0
        assert "aot_eager_decomp_partition " in result.stdout


def test_help_as_json_is_one_object():
    result = CliRunner().invoke(application, ["--backend", "help", "--json"])
    found = json.loads(result.stdout)["backends"]
    assert {"name": "tvm", "group": "compilers", "words": "Apache TVM"}.items() <= next(
        one for one in found if one["name"] == "tvm"
    ).items()


def test_without_help_a_bundle_is_asked_for():
    result = CliRunner().invoke(application, ["--backend", "eager"])
    assert result.exit_code == 2


def test_the_command_lists_backends_in_a_process_of_its_own(tmp_path):
    result = python("-m", "replay", "--backend", "help", cwd=tmp_path, NO_COLOR="1")
    assert (result.returncode, result.stderr) == (0, "")
    assert "uncompiled" in result.stdout
