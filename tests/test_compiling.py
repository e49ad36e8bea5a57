"""Backends: known, named, found, and compiling with them again."""

from __future__ import annotations

import functools
import os
import sys

import pytest
import torch
import torch._dynamo
from programs import bare, no_relu
from torch._dynamo.backends import registry

from replay.errors import UsageError
from replay.torch_adapter import backends, compiling, hooks


def backend_of(**options):
    """What the hook says of the backend of a torch.compile with these options."""
    torch._dynamo.reset()
    seen = []
    with hooks.observing(lambda attempt: seen.append(compiling.Backend(attempt.converter))):
        bare(lambda: torch.compile(lambda x: x + 1, **options)(torch.ones(2)))
    return seen[0]


@pytest.mark.parametrize("name", ["eager", "aot_eager", "aot_eager_decomp_partition"])
def test_a_backend_of_torchs_is_known_by_its_name(name):
    found = backend_of(backend=name)
    assert (found.name, found.registered, found.shipped, found.options) == (name, name, None, {})


def test_a_function_that_torch_registers_is_known_by_its_name_too():
    assert backend_of(backend=registry.lookup_backend("aot_eager")).name == "aot_eager"


@pytest.mark.usefixtures("inductor")
def test_inductor_has_its_mode_expanded_and_its_options():
    found = backend_of(backend="inductor", mode="max-autotune-no-cudagraphs", dynamic=False)
    assert (found.name, found.shipped, found.dynamic) == ("inductor", None, False)
    assert found.options["max_autotune"] is True
    assert backend_of(options={"max_autotune": True}).options == {"max_autotune": True}


def test_a_function_of_the_users_is_shipped():
    found = backend_of(backend=no_relu, dynamic=True)
    assert (found.name, found.shipped, found.registered, found.dynamic) == (
        "programs:no_relu",
        no_relu,
        None,
        True,
    )


def test_a_callable_object_a_method_and_a_partial_are_shipped():
    class Backend:
        def __call__(self, gm, example_inputs):
            return gm.forward

        def method(self, gm, example_inputs):
            return gm.forward

    one = Backend()
    partial = functools.partial(functools.partial(Backend.method, one))
    for given, name in ((one, "Backend"), (one.method, "Backend.method"), (partial, "Backend.method")):
        found = backend_of(backend=given)
        assert found.shipped == given
        assert found.name.endswith(name)


def test_a_backend_that_the_user_registered_is_shipped_under_its_name():
    def own(gm, example_inputs, **options):
        return gm.forward

    torch._dynamo.register_backend(own, name="replay_test_backend")
    try:
        found = backend_of(backend="replay_test_backend", options={"level": 3})
    finally:
        del registry._COMPILER_FNS["replay_test_backend"], registry._BACKENDS["replay_test_backend"]
    assert (found.registered, found.shipped, found.options) == ("replay_test_backend", own, {"level": 3})
    with compiling.registered(found.registered, found.shipped) as name:
        assert name == "replay_test_backend"
        assert name in backends.names()
    assert "replay_test_backend" not in backends.names()
    with compiling.registered(None, own) as unnamed:
        assert unnamed is own


@pytest.mark.parametrize("name", ["eager", "aot_eager", "inductor", "cudagraphs", "pre_dispatch_eager"])
def test_a_registered_name_resolves_to_itself(name):
    assert compiling.resolve(name) == name


def test_module_and_attribute_resolve_to_the_object():
    assert compiling.resolve("programs:no_relu") is no_relu
    assert compiling.resolve("torch._dynamo.backends.debugging:eager").__name__ == "eager"
    assert compiling.resolve("functools:partial.__new__") is functools.partial.__new__


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("aot_egaer", "did you mean 'aot_eager'"),
        ("zzz", "known here: .*inductor"),
        ("", "known here"),
        ("no_such_module_x:f", "cannot import 'no_such_module_x'"),
        ("programs:no_such", "no attribute 'no_such'"),
        ("os:sep", "it is a str, not a function"),
        (":f", "module:attribute"),
        ("programs:", "module:attribute"),
    ],
)
def test_what_is_no_backend_is_a_usage_error_with_a_hint(name, words):
    with pytest.raises(UsageError, match=words):
        compiling.resolve(name)


def test_a_module_that_fails_to_import_says_why(tmp_path, monkeypatch):
    (tmp_path / "fails_to_import_x.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match="ZeroDivisionError"):
        compiling.resolve("fails_to_import_x:f")


@pytest.mark.parametrize(
    ("mode", "backend", "words"),
    [("reduce-overhead", "eager", "only the inductor"), ("fast", "inductor", "knows default")],
)
def test_a_mode_needs_inductor_and_a_name_that_it_knows(mode, backend, words):
    with pytest.raises(UsageError, match=words):
        compiling.check_mode(mode, backend)
    compiling.check_mode("reduce-overhead", "inductor")


def test_nothing_that_was_compiled_before_or_within_is_seen_across_the_border():
    calls = []

    def counting(gm, example_inputs):
        calls.append(gm)
        return gm.forward

    function = torch.compile(lambda x: x + 1, backend=counting)
    function(torch.ones(2))
    before = {name: value for name, value in os.environ.items() if "CACHE" in name}
    with compiling.fresh_caches(isolated=False):
        assert os.environ.get("TORCHINDUCTOR_CACHE_DIR") != before.get("TORCHINDUCTOR_CACHE_DIR", "")
        directory = os.environ["TORCHINDUCTOR_CACHE_DIR"]
        function(torch.ones(2))
    function(torch.ones(2))
    assert len(calls) == 3
    assert not os.path.exists(directory)
    assert {name: value for name, value in os.environ.items() if "CACHE" in name} == before


@pytest.mark.usefixtures("inductor")
def test_a_cache_of_inductors_does_not_hide_a_failure(tmp_path):
    import torch._inductor.config as inductor_config

    from replay.torch_adapter import failures  # noqa: F401 - loaded before the block looks

    def activate(x):
        return torch.relu(x) * 3

    torch._dynamo.reset()
    assert torch.compile(activate)(torch.ones(4)).tolist() == [3] * 4
    with (
        inductor_config.patch("cpp.inject_relu_bug_TESTING_ONLY", "compile_error"),
        compiling.fresh_caches(isolated=False),
    ):
        error = bare(lambda: torch.compile(activate)(torch.ones(4)))
    assert error is not None
    assert "CppCompileError" in str(error)


def test_importing_the_adapter_imports_no_torch():
    import subprocess

    code = (
        "import sys, replay.torch_adapter, replay.torch_adapter.compiling; sys.exit('torch' in sys.modules)"
    )
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
