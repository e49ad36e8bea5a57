"""Exceptions taken apart."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import tempfile
import traceback
from getpass import getuser
from pathlib import Path

import pytest
import torch
import torch._dynamo
from programs import bare, imported, no_relu, recorded

import replay
from replay import fingerprint
from replay.torch_adapter import failures, hooks


def described(program):
    """The failures of a program, as the hook tells them."""
    found = []

    def observe(attempt):
        if attempt.error is not None:
            stage = "graph_break" if attempt.fate == "graph_break" else None
            found.append(failures.describe(attempt.error, stage=stage))

    torch._dynamo.reset()
    with hooks.observing(observe):
        bare(program)
    return found


def compiled(function, *args, backend="eager", **options):
    return lambda: torch.compile(function, backend=backend, **options)(*args)


def inner(x):
    torch._dynamo.graph_break()
    return x


def outer(x):
    return inner(x + 1)


def test_dynamos_error_names_the_users_stack_the_kind_of_break_and_torchs_function():
    (error,) = described(compiled(outer, torch.ones(2), fullgraph=True))
    assert (error.type, error.stage) == ("torch._dynamo.exc.Unsupported", "dynamo")
    assert [(one.function, one.code) for one in error.user_frames] == [
        ("outer", "return inner(x + 1)"),
        ("inner", "torch._dynamo.graph_break()"),
    ]
    assert error.user_frames[1].line == inner.__code__.co_firstlineno + 1
    assert error.user_frames[1].file == __file__
    assert error.gb_type == "Call to `torch._dynamo.graph_break()`"
    assert error.raised_in.startswith("torch/_dynamo/")
    assert error.message in error.traceback


def test_a_backends_error_names_what_it_wraps_and_the_line_in_the_backend():
    (error,) = described(compiled(lambda x: x.relu(), torch.ones(2), backend=no_relu))
    assert (error.type, error.inner_type) == ("torch._dynamo.exc.BackendCompilerFailed", "ValueError")
    assert error.stage == "backend"
    assert error.user_frames[-1].code == 'raise ValueError("no relu here")'


def test_a_graph_break_is_its_own_stage():
    import threading

    lock = threading.Lock()

    def breaks(x):
        with lock:
            torch._dynamo.graph_break()
            return x + 1

    assert [one.stage for one in described(compiled(breaks, torch.ones(2)))] == ["graph_break"]


def test_a_limit_is_its_own_stage_with_and_without_fullgraph():
    def many(x, name):
        return x + len(name)

    for fullgraph in (True, False):
        function = torch.compile(many, backend="eager", fullgraph=fullgraph)
        found = described(lambda function=function: [function(torch.ones(2), str(n)) for n in range(12)])
        assert [one.stage for one in found] == ["recompile_limit"]


def test_an_error_in_running_code_is_a_run_time_error():
    error = failures.describe(ValueError("x"), stage="runtime")
    assert (error.type, error.stage, error.message) == ("ValueError", "runtime", "x")


def test_the_same_failure_of_a_copied_program_has_the_same_fingerprint(tmp_path):
    text = """
        # %s
        import torch
        def fails(x):
            torch._dynamo.graph_break()
            return x
        def run():
            torch.compile(fails, backend="eager", fullgraph=True)(torch.ones(3))
        def run_relu(backend):
            torch.compile(lambda x: x.relu(), backend=backend)(torch.ones(3))
        """
    seen = []
    for folder, comment in (("one", "short"), ("other/place", "long\n        #\n        #")):
        with imported(tmp_path / folder, "copied_program", text % comment) as module:
            for program in (module.run, lambda module=module: module.run_relu(no_relu)):
                (error,) = described(program)
                seen.append(error.fingerprint)
    assert seen[:2] == seen[2:]
    assert seen[0] != seen[1]


def test_two_failures_of_one_line_differ(tmp_path):
    def either(x, first):
        return x @ torch.ones(7, 7) if first else torch._dynamo.graph_break()

    def program(first):
        return compiled(either, torch.ones(3), first, fullgraph=True)

    (one,), (other,), (again,) = described(program(True)), described(program(False)), described(program(True))
    assert one.user_frames[-1].line == other.user_frames[-1].line
    assert fingerprint.core(one.fingerprint) != fingerprint.core(other.fingerprint)
    assert one.fingerprint == again.fingerprint


def test_other_shapes_are_the_same_failure():
    def product(x, y):
        return x @ y

    (one,) = described(compiled(product, torch.ones(3, 4), torch.ones(3, 4)))
    (other,) = described(compiled(product, torch.ones(30, 41), torch.ones(32, 4)))
    assert one.fingerprint == other.fingerprint
    assert one.message != other.message


class Resists(Exception):
    def __str__(self):
        raise RuntimeError("no words")

    inner_exception = property(lambda self: 1 / 0)
    real_stack = property(lambda self: 1 / 0)
    gb_type = property(lambda self: 1 / 0)


@pytest.mark.parametrize(
    ("name", "value"), [("real_stack", 5), ("real_stack", [1]), ("gb_type", 7), ("inner_exception", "x")]
)
def test_attributes_that_are_not_torchs_are_left_out(name, value):
    error = ValueError("x")
    setattr(error, name, value)
    info = failures.describe(error)
    assert (info.user_frames, info.gb_type, info.inner_type) == ((), None, None)


def test_an_exception_that_cannot_be_printed_is_described_all_the_same(tmp_path):
    info = failures.describe(Resists())
    assert info.message == "<str() of it raised RuntimeError>"
    assert info.type.endswith("Resists")

    def refuse(gm, example_inputs):
        raise Resists

    run = recorded(tmp_path, compiled(lambda x: x.relu(), torch.ones(2), backend=refuse))
    assert run.warnings == []
    assert replay.run(run.bundles[0], isolate=False).status == "reproduced"


def test_exceptions_in_chains_and_groups_are_described():
    try:
        try:
            raise KeyError("first")
        except KeyError as first:
            raise ValueError("second") from first
    except ValueError as error:
        error.__cause__.__cause__ = error  # a ring
        info = failures.describe(error)
    assert "first" in info.traceback
    assert "second" in info.traceback
    if sys.version_info >= (3, 11):
        group = ExceptionGroup("many", [ValueError("a"), TypeError("b")])  # noqa: F821 - new in 3.11
        assert "TypeError: b" in failures.describe(group).traceback


def test_the_traceback_for_people_has_no_line_of_ours_and_no_directory_of_a_library():
    (error,) = described(compiled(outer, torch.ones(2), fullgraph=True))
    ours = os.path.dirname(replay.__file__)
    assert ours not in error.traceback
    assert sysconfig.get_paths()["purelib"] not in error.traceback
    assert error.traceback.startswith("Traceback")


def test_user_files_are_those_that_are_not_installed():
    assert failures.is_user_file(__file__)
    assert failures.is_user_file("/somewhere/net.py")
    assert failures.is_user_file("<ipython-input-3-aa>")
    for file in (
        traceback.__file__,
        torch.__file__,
        pytest.__file__,
        replay.__file__,
        "<string>",
        "<frozen x>",
    ):
        assert not failures.is_user_file(file)


def test_torchs_files_are_named_as_in_its_repository():
    assert failures.torch_file(torch._dynamo.exc.__file__) == "torch/_dynamo/exc.py"
    assert failures.torch_file(__file__) is None
    assert failures.torch_file(torch.__file__.replace("torch", "torchvision")) is None


def test_type_names_are_full_but_for_builtins():
    assert failures.type_name(ValueError) == "ValueError"
    assert failures.type_name(torch._dynamo.exc.Unsupported) == "torch._dynamo.exc.Unsupported"


def test_describing_keeps_no_frame_alive():
    import gc
    import weakref

    class Held:
        pass

    def program():
        held = Held()
        gone.append(weakref.ref(held))
        raise ValueError("x")

    gone = []
    try:
        program()
    except ValueError as error:
        info = failures.describe(error)
    gc.collect()
    assert gone[0]() is None
    assert info.message == "x"


def test_telling_whose_a_file_is_sets_no_variable_of_torchs(monkeypatch):
    importlib.import_module("torch._inductor.runtime.cache_dir_utils")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    assert failures.is_user_file("/home/somebody/train.py")
    assert not failures.is_user_file(str(Path(tempfile.gettempdir(), f"torchinductor_{getuser()}", "x.py")))
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ
