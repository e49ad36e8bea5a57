"""torch's configs: found, checked, set for a while."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
from programs import here, no_relu, recorded

from replay.errors import UsageError
from replay.torch_adapter import configs


def test_a_fresh_process_has_little_that_was_set():
    assert not [key for key in configs.changed() if key.startswith("dynamo.")]


def test_what_was_set_is_found_and_what_was_set_to_its_default_is_not():
    with torch._dynamo.config.patch(suppress_errors=True, recompile_limit=8):
        assert configs.changed()["dynamo.suppress_errors"] is True
        assert "dynamo.recompile_limit" not in configs.changed()
    with torch._inductor.config.patch({"cpp.threads": 7}):
        assert configs.changed()["inductor.cpp.threads"] == 7
    assert "dynamo.suppress_errors" not in configs.changed()


def test_an_alias_is_recorded_under_its_real_name():
    with torch._dynamo.config.patch(cache_size_limit=3):
        found = configs.changed()
    assert found["dynamo.recompile_limit"] == 3
    assert "dynamo.cache_size_limit" not in found


@pytest.mark.parametrize(
    ("key", "value", "checked"),
    [
        ("dynamo.suppress_errors", True, ("dynamo.suppress_errors", True)),
        ("dynamo.suppress_errors", 1, ("dynamo.suppress_errors", True)),
        ("torch._dynamo.config.recompile_limit", 2, ("dynamo.recompile_limit", 2)),
        ("torch._dynamo.recompile_limit", 2, ("dynamo.recompile_limit", 2)),
        ("inductor.cpp.threads", 4, ("inductor.cpp.threads", 4)),
        ("inductor.cpp.cxx", [None, "g++"], ("inductor.cpp.cxx", (None, "g++"))),
        ("functorch.donated_buffer", False, ("functorch.donated_buffer", False)),
        ("inductor.max_autotune", None, ("inductor.max_autotune", None)),
    ],
)
def test_a_key_and_a_value_that_fit_are_taken(key, value, checked):
    assert configs.parse(key, value) == checked


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("dynamo.no_such_key", 1, "unknown to this torch"),
        ("suppress_errors", True, "keys look like dynamo.suppress_errors"),
        ("nothing.suppress_errors", True, "unknown"),
        ("dynamo.suppress_errors", "yes", "must be bool"),
        ("dynamo.suppress_errors", 2, "must be bool"),
        ("dynamo.recompile_limit", "many", "must be int"),
        ("dynamo.recompile_limit", True, "must be int"),
        ("dynamo.recompile_limit", 2.5, "must be int"),
        ("", 1, "unknown"),
    ],
)
def test_a_key_or_a_value_that_does_not_fit_is_a_usage_error(key, value, words):
    with pytest.raises(UsageError, match=words):
        configs.parse(key, value)


def test_values_are_set_for_a_while_the_chosen_over_the_recorded():
    with configs.applied(
        {"dynamo.recompile_limit": 3, "dynamo.verbose": True}, {"dynamo.recompile_limit": 5}
    ) as drift:
        assert (torch._dynamo.config.recompile_limit, torch._dynamo.config.verbose) == (5, True)
    assert (torch._dynamo.config.recompile_limit, torch._dynamo.config.verbose) == (8, False)
    assert drift == []


def test_what_is_set_here_only_has_its_default_meanwhile():
    with torch._dynamo.config.patch(suppress_errors=True):
        with configs.applied({}, {}):
            assert torch._dynamo.config.suppress_errors is False
        assert torch._dynamo.config.suppress_errors is True


def test_keys_that_torch_lacks_or_that_start_other_tools_are_drift():
    wanted = {"dynamo.gone_since": 1, "dynamo.repro_after": "dynamo", "unknown.key": 2}
    with configs.applied(wanted, {}) as drift:
        assert torch._dynamo.config.repro_after != "dynamo"
    assert [one.name for one in drift] == [
        "config.dynamo.gone_since",
        "config.dynamo.repro_after",
        "config.unknown.key",
    ]


def test_values_are_put_back_after_an_exception():
    with pytest.raises(ValueError, match="x"), configs.applied({"dynamo.verbose": True}, {}):
        raise ValueError("x")
    assert torch._dynamo.config.verbose is False


def failing(**patched):
    def program():
        with torch._dynamo.config.patch(**patched):
            torch.compile(lambda x: x.relu(), backend=no_relu)(torch.ones(3))

    return program


def test_the_configs_of_the_failure_are_in_the_manifest_and_in_the_replay(tmp_path):
    run = recorded(tmp_path, failing(suppress_errors=True, recompile_limit=3))
    assert run.manifest.config == {"dynamo.suppress_errors": True, "dynamo.recompile_limit": 3}
    assert here(run.bundles[0]).status == "reproduced"
    assert torch._dynamo.config.suppress_errors is False


def test_an_object_among_the_configs_travels_with_the_values(tmp_path):
    def hook(*args):
        return None

    run = recorded(tmp_path, failing(reorderable_logging_functions={print, hook}))
    assert isinstance(run.manifest.config["dynamo.reorderable_logging_functions"], str)
    assert here(run.bundles[0]).status == "reproduced"


def test_what_torch_compile_sets_by_itself_is_no_config_of_the_users(tmp_path):
    def program(dynamic):
        return lambda: torch.compile(lambda x: x.relu(), backend=no_relu, dynamic=dynamic)(torch.ones(3))

    for dynamic in (True, False):
        run = recorded(tmp_path / str(dynamic), program(dynamic))
        assert (run.manifest.config, run.manifest.compile.dynamic) == ({}, dynamic)


def test_a_chosen_config_decides_the_replay(tmp_path):
    def program():
        def many(x, name):
            return x + len(name)

        compiled = torch.compile(many, backend="eager", fullgraph=True)
        for number in range(10):
            compiled(torch.ones(2), str(number))

    (bundle,) = recorded(tmp_path, program).bundles
    assert here(bundle).status == "reproduced"
    assert here(bundle, config={"dynamo.recompile_limit": 20}).status == "passed"
    with pytest.raises(UsageError, match="no_such"):
        here(bundle, config={"dynamo.no_such": 1})
