"""`record()`: which failures make a bundle, and that the program never notices."""

from __future__ import annotations

import asyncio
import errno
import functools
import random
import re
import threading
import traceback
import warnings
from pathlib import Path

import pytest
import torch
import torch._dynamo
from programs import bare, here, no_relu, python, recorded, write
from strange import PROGRAMS

import replay
from replay.errors import BundleError, RecordingWarning, UnsupportedTorchError, UsageError
from replay.recorder import block as recorder
from replay.recorder import capture, telling
from replay.selection import Selection
from replay.torch_adapter import hooks


def plain_function():
    def scale(x):
        return x.relu()

    torch.compile(scale, backend=no_relu)(torch.ones(3))


def under_fullgraph():
    def scale(x):
        return x.relu()

    torch.compile(scale, backend=no_relu, fullgraph=True)(torch.ones(3))


def shapes_that_do_not_fit():
    def product(x, y):
        return x @ y

    torch.compile(product, backend="eager")(torch.ones(3, 4), torch.ones(3, 4))


def graph_break_under_fullgraph():
    def stop(x):
        torch._dynamo.graph_break()
        return x + 1

    torch.compile(stop, backend="eager", fullgraph=True)(torch.ones(3))


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu()


def module():
    torch.compile(Layer(), backend=no_relu)(torch.ones(2, 3))


def module_compiled_in_place():
    layer = Layer()
    layer.compile(backend=no_relu, fullgraph=True)
    layer(torch.ones(2, 3))


def called_after_a_graph_break():
    lock = threading.Lock()

    def inner(x):
        return x.relu()

    def outer(x):
        with lock:
            print("break")
            return inner(x + 1)

    torch.compile(outer, backend=no_relu)(torch.ones(3))


def resume_function():
    def outer(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x.relu()

    torch.compile(outer, backend=no_relu)(torch.ones(3))


def suppressed():
    def scale(x):
        return x.relu()

    with torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(scale, backend=no_relu)(torch.ones(3))


def recompile_limit():
    def tag(x, name):
        return x + len(name)

    compiled = torch.compile(tag, backend="eager")
    for number in range(12):
        compiled(torch.ones(3), f"name {number}")


def recompile_limit_under_fullgraph():
    def tag(x, name):
        return x + len(name)

    compiled = torch.compile(tag, backend="eager", fullgraph=True)
    for number in range(12):
        compiled(torch.ones(3), f"name {number}")


def in_a_thread():
    errors = []

    def work():
        try:
            plain_function()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join()
    raise errors[0]


def in_a_coroutine():
    async def main():
        await asyncio.sleep(0)
        plain_function()

    asyncio.run(main())


def autograd():
    @torch.library.custom_op("replay_tests::halve", mutates_args=())
    def halve(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    halve.register_fake(torch.empty_like)
    halve.register_autograd(lambda ctx, grad: grad @ torch.ones(5, 5))

    def loss(x):
        return halve(x).sum()

    torch.compile(loss, backend="aot_eager")(torch.ones(2, 7, requires_grad=True))


def lowering():
    def pick(x, limit, far):
        return torch.where(far, limit, x)

    x = torch.arange(4).to(torch.uint16)
    torch.compile(pick)(x, x, x.to(torch.int32) > 2)


KINDS = {
    plain_function: ("backend", "scale", "BackendCompilerFailed"),
    under_fullgraph: ("backend", "scale", "BackendCompilerFailed"),
    shapes_that_do_not_fit: ("dynamo", "product", "TorchRuntimeError"),
    graph_break_under_fullgraph: ("dynamo", "stop", "Unsupported"),
    module: ("backend", "forward", "BackendCompilerFailed"),
    module_compiled_in_place: ("backend", "forward", "BackendCompilerFailed"),
    called_after_a_graph_break: ("backend", "inner", "BackendCompilerFailed"),
    resume_function: ("backend", "outer", "BackendCompilerFailed"),
    suppressed: ("backend", "scale", "BackendCompilerFailed"),
    recompile_limit: ("recompile_limit", "tag", "Unsupported"),
    recompile_limit_under_fullgraph: ("recompile_limit", "tag", "FailOnRecompileLimitHit"),
    in_a_thread: ("backend", "scale", "BackendCompilerFailed"),
    in_a_coroutine: ("backend", "scale", "BackendCompilerFailed"),
    autograd: ("aot_autograd", "loss", None),
}
HIDDEN = {suppressed, recompile_limit}


@pytest.mark.parametrize("program", KINDS, ids=lambda program: program.__name__)
def test_every_kind_of_failure_makes_one_bundle_and_reaches_the_caller_as_it_would_without_us(
    program, tmp_path
):
    assert_recorded(program, tmp_path, *KINDS[program])


@pytest.mark.usefixtures("inductor")
def test_an_error_of_inductor_makes_one_bundle(tmp_path):
    assert_recorded(lowering, tmp_path, "inductor", "pick", "InductorError")


def assert_recorded(program, tmp_path, stage, function, kind):
    expected = bare(program)
    run = recorded(tmp_path, program)
    assert (type(run.error), str(run.error)) == (type(expected), str(expected))
    assert run.warnings == []
    assert [path.name for path in run.bundles] == [path.name for path in tmp_path.iterdir()]
    (bundle,) = run.bundles
    manifest = replay.load(bundle).manifest
    assert (manifest.error.stage, manifest.frame.resume_of or manifest.frame.name) == (stage, function)
    assert kind is None or manifest.error.type.rpartition(".")[2] == kind
    assert manifest.missing == ()
    if program in HIDDEN:
        assert run.error is None
    else:
        (note,) = run.error.__notes__
        assert str(bundle) in note
        assert f"python -m replay {bundle}" in note
        assert str(run.error) == manifest.error.message
    outcome = here(bundle)
    assert (outcome.status, outcome.error.message) == ("reproduced", manifest.error.message)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_strange_program_fails_as_ever_and_its_frame_is_recorded_and_reproduced(name, tmp_path):
    expected = bare(PROGRAMS[name])
    run = recorded(tmp_path, PROGRAMS[name])
    assert (type(run.error), str(run.error)) == (type(expected), str(expected))
    assert run.warnings == []
    (bundle,) = run.bundles
    outcome = here(bundle)
    assert (outcome.status, outcome.drift) == ("reproduced", ())
    assert outcome.error.message == run.manifest.error.message


def test_a_thread_is_named_in_the_manifest(tmp_path):
    assert recorded(tmp_path, in_a_thread).manifest.process["thread"] == "worker"


def test_the_exception_is_the_very_object_that_the_compiler_raised(tmp_path, monkeypatch):
    from torch._dynamo import convert_frame

    seen = []
    original = convert_frame.ConvertFrameAssert.__call__

    @functools.wraps(original)
    def spy(self, *args, **kwargs):
        try:
            return original(self, *args, **kwargs)
        except Exception as error:
            seen.append(error)
            raise

    monkeypatch.setattr(convert_frame.ConvertFrameAssert, "__call__", spy)
    run = recorded(tmp_path, plain_function)
    assert [run.error] == seen
    assert len(run.bundles) == 1


def test_the_traceback_that_python_prints_has_no_line_of_ours(tmp_path):
    plain = bare(plain_function)
    run = recorded(tmp_path, plain_function)
    files = [
        [frame.filename for frame in traceback.extract_tb(one.__traceback__)][1:]
        for one in (plain, run.error)
    ]
    assert files[0] == files[1]


def test_a_failure_in_a_loop_makes_one_bundle(tmp_path):
    def program():
        for _ in range(3):
            with pytest.raises(Exception, match="no relu"):
                plain_function()

    assert len(recorded(tmp_path, program).bundles) == 1


def test_one_exception_that_fails_two_frames_makes_one_bundle(tmp_path):
    def inner(x):
        return x.relu()

    def outer(x):
        return x + 1

    def nested(gm, example_inputs):
        return torch.compile(inner, backend=no_relu, fullgraph=True)(torch.ones(2))

    run = recorded(tmp_path, lambda: torch.compile(outer, backend=nested)(torch.ones(2)))
    assert (len(run.bundles), len(run.error.__notes__)) == (1, 1)
    assert run.manifest.frame.name == "inner"


def test_one_error_in_two_functions_makes_two_bundles(tmp_path):
    def program():
        for one in (lambda x: x.relu(), Layer().forward):
            with pytest.raises(Exception, match="no relu"):
                torch.compile(one, backend=no_relu)(torch.ones(3))

    assert len(recorded(tmp_path, program).bundles) == 2


def test_two_failures_of_one_function_make_two_bundles(tmp_path):
    def program():
        def both(x, first):
            if first:
                return x.relu()
            return x @ torch.ones(5, 5)

        for first in (True, False):
            with pytest.raises(Exception, match=r"relu|shape"):
                torch.compile(both, backend=no_relu)(torch.ones(3), first)

    assert len(recorded(tmp_path, program).bundles) == 2


def test_where_nothing_fails_nothing_is_written(tmp_path):
    def program():
        def broken(x):
            x = x + 1
            print("a graph break is no failure")
            return x * 2

        torch.compile(broken, backend="aot_eager")(torch.ones(3))

    run = recorded(tmp_path / "not" / "there", program)
    assert (run.bundles, run.warnings, run.error) == ([], [], None)
    assert not (tmp_path / "not").exists()


def test_exceptions_of_the_program_itself_are_no_failures(tmp_path):
    def program():
        def refuse(x):
            raise KeyError("mine")

        torch.compile(refuse, backend="eager")(torch.ones(3))

    run = recorded(tmp_path, program)
    assert isinstance(run.error, KeyError)
    assert run.bundles == []
    assert not hasattr(run.error, "__notes__")


def test_nested_blocks_each_have_their_bundle(tmp_path):
    with replay.record(tmp_path / "outer") as outer, replay.record(tmp_path / "inner") as inner:
        error = bare(plain_function)
    assert [len(one.bundles) for one in (outer, inner)] == [1, 1]
    assert [
        str(one.bundles[0]) in note for one, note in zip((inner, outer), error.__notes__, strict=True)
    ] == [True] * 2


@pytest.mark.parametrize(
    "program", [plain_function, suppressed, recompile_limit], ids=lambda one: one.__name__
)
def test_nested_blocks_with_one_directory_share_the_bundle(program, tmp_path):
    with replay.record(tmp_path) as outer, replay.record(tmp_path) as inner:
        error = bare(program)
    assert outer.bundles == inner.bundles == list(tmp_path.iterdir())
    assert error is None or len(error.__notes__) == 1


def test_a_recorder_can_be_entered_again_and_inside_itself(tmp_path):
    block = replay.record(tmp_path)
    with block, block:
        bare(plain_function)
    with block:
        bare(shapes_that_do_not_fit)
    assert len(block.bundles) == 2


def test_an_inner_block_that_ends_leaves_the_outer_one_recording(tmp_path):
    with replay.record(tmp_path / "outer") as outer:
        with replay.record(tmp_path / "inner"):
            pass
        bare(plain_function)
    assert len(outer.bundles) == 1


def test_blocks_of_two_threads_record_while_any_is_open(tmp_path):
    barrier = threading.Barrier(2)
    counts = []

    def work(name):
        with replay.record(tmp_path / name) as block:
            barrier.wait()
            with pytest.raises(Exception, match="no relu"):
                plain_function()
            barrier.wait()
        counts.append(len(block.bundles))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [1, 1]


def test_a_decorated_function_method_and_coroutine_record_and_stay_themselves(tmp_path):
    class Trainer:
        @replay.record(tmp_path / "method")
        def step(self, x):
            """Step."""
            return torch.compile(lambda y: y.relu(), backend=no_relu)(x)

    block = replay.record(tmp_path / "function")

    @block
    def countdown(n):
        return countdown(n - 1) if n else plain_function()

    @replay.record(tmp_path / "coroutine")
    async def main():
        await asyncio.sleep(0)
        plain_function()

    for run in (lambda: Trainer().step(torch.ones(3)), lambda: countdown(3), lambda: asyncio.run(main())):
        assert "no relu" in str(bare(run))
    assert sorted(path.parent.name for path in tmp_path.glob("*/*.rec")) == [
        "coroutine",
        "function",
        "method",
    ]
    assert (Trainer.step.__name__, Trainer.step.__doc__) == ("step", "Step.")
    assert len(block.bundles) == 1
    assert asyncio.iscoroutinefunction(main)


def test_a_decorated_function_remembers_its_earlier_calls(tmp_path):
    def tag(x, name):
        return x + len(name)

    compiled = torch.compile(tag, backend="eager", fullgraph=True)
    block = replay.record(tmp_path)

    @block
    def step(number):
        compiled(torch.ones(3), f"name {number}")

    assert bare(lambda: [step(number) for number in range(12)]) is not None
    assert here(block.bundles[0]).status == "reproduced"


def test_a_generator_function_cannot_be_decorated(tmp_path):
    with pytest.raises(UsageError, match="generator function"):

        @replay.record(tmp_path)
        def numbers():
            yield 1


def test_compiling_a_decorated_function_works(tmp_path):
    @replay.record(tmp_path)
    def double(x):
        return x * 2

    torch._dynamo.reset()
    assert torch.compile(double, backend="eager")(torch.ones(2)).tolist() == [2, 2]


def test_max_bundles_stops_with_one_warning(tmp_path):
    def program():
        for name in ("a", "b", "c", "d"):
            scope = {}
            exec(f"def {name}(x):\n    return x.relu()", scope)
            with pytest.raises(Exception, match="no relu"):
                torch.compile(scope[name], backend=no_relu)(torch.ones(3))

    run = recorded(tmp_path, program, max_bundles=2)
    assert len(run.bundles) == len(list(tmp_path.iterdir())) == 2
    (warning,) = run.warnings
    assert "max_bundles=2" in warning


@pytest.mark.parametrize(
    ("only", "count"),
    [
        ("forward", 1),
        ("Layer.forward", 1),
        ("Layer.*", 1),
        (re.compile("^Layer"), 1),
        (["nothing", "for*"], 1),
        ("Layer", 0),
        (re.compile("^forward"), 0),
    ],
)
def test_only_selects_by_name_qualified_name_glob_or_expression(only, count, tmp_path):
    assert len(recorded(tmp_path, module, only=only).bundles) == count


def test_only_takes_a_resume_function_for_the_function_that_it_resumes(tmp_path):
    assert len(recorded(tmp_path, resume_function, only="outer").bundles) == 1
    assert len(recorded(tmp_path, resume_function, only="*<locals>.outer").bundles) == 1


@pytest.mark.parametrize("policy", ["full", "metadata", "auto"])
def test_tensors_says_which_values_travel(policy, tmp_path):
    def program():
        def pick(x, index):
            return x.relu()[index]

        torch.compile(pick, backend=no_relu)(torch.randn(40_000), torch.arange(3))

    manifest = recorded(tmp_path, program, tensors=policy).manifest
    by_dtype = {
        spec.dtype: manifest.storages[spec.storage].entry is not None for spec in manifest.tensors.values()
    }
    assert (
        by_dtype
        == {
            "full": {"float32": True, "int64": True},
            "metadata": {"float32": False, "int64": False},
            "auto": {"float32": False, "int64": True},
        }[policy]
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"on": "nothing"},
        {"on": ["failure", "nothing"]},
        {"on": ()},
        {"tolerance": -1},
        {"tolerance": "small"},
        {"tensors": "some"},
        {"max_bundles": 0},
        {"max_bundles": True},
        {"only": ""},
        {"only": 5},
        {"only": [None]},
        {"calls": True},
    ],
)
def test_an_argument_that_cannot_be_honoured_is_a_usage_error(wrong, tmp_path):
    with pytest.raises(UsageError):
        replay.record(tmp_path, **wrong)


# What goes wrong on our side


@pytest.fixture
def filed(tmp_path):
    """A directory that cannot be made: a file is in the way."""
    (tmp_path / "file").write_text("x")
    return tmp_path / "file" / "failures"


def no_space(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


def full_disk(tmp_path, monkeypatch):
    from replay.bundle import BundleWriter

    monkeypatch.setattr(BundleWriter, "add_values", no_space)
    return tmp_path / "failures"


def broken_capture(tmp_path, monkeypatch):
    monkeypatch.setattr(capture, "write", lambda *args, **kwargs: 1 / 0)
    return tmp_path / "failures"


def broken_describing(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder.failures, "describe", lambda *args, **kwargs: 1 / 0)
    return tmp_path / "failures"


def file_in_the_way(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    return tmp_path / "file" / "failures"


TROUBLES = [full_disk, broken_capture, broken_describing, file_in_the_way]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.__name__)
def test_a_failure_of_ours_is_a_warning_and_the_program_goes_on(trouble, tmp_path, monkeypatch):
    expected = bare(plain_function)
    directory = trouble(tmp_path, monkeypatch)
    run = recorded(directory, plain_function)
    assert (type(run.error), str(run.error)) == (type(expected), str(expected))
    assert not hasattr(run.error, "__notes__")
    assert run.bundles == []
    (warning,) = run.warnings
    assert "'scale'" in warning
    assert not directory.is_dir() or list(directory.iterdir()) == []


def test_a_warning_of_ours_is_never_raised(filed, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with replay.record(filed):
            error = bare(plain_function)
    assert "no relu" in str(error)
    assert "RecordingWarning: replay could not record 'scale'" in capsys.readouterr().err


def test_what_cannot_be_pickled_is_missing_and_the_rest_is_recorded(tmp_path):
    class Stubborn(dict):
        def __reduce__(self):
            raise RuntimeError("never")

    def program():
        def scale(x, unused):
            return x.relu()

        torch.compile(scale, backend=no_relu)(torch.ones(3), Stubborn())

    run = recorded(tmp_path, program)
    (missing,) = run.manifest.missing
    assert missing.name == "arguments.unused"
    assert missing.type.endswith("Stubborn")
    assert "never" in missing.reason
    assert here(run.bundles[0]).status == "reproduced"


def test_an_object_graph_that_cannot_be_shipped_leaves_a_bundle_to_look_at(tmp_path, monkeypatch):
    original = capture.shipping.dump

    def dump(root, **kwargs):
        if root is not None:
            raise RuntimeError("no way")
        return original(root, **kwargs)

    monkeypatch.setattr(capture.shipping, "dump", dump)
    run = recorded(tmp_path, plain_function)
    assert "no way" in run.warnings[0]
    assert run.manifest.missing[0].name == "values"
    outcome = here(run.bundles[0])
    assert outcome.status == "missing"
    assert "no way" in outcome.missing[0].name


def test_exceptions_that_resist_are_recorded_without_their_note(tmp_path, caplog):
    class Frozen(Exception):
        def __setattr__(self, name, value):
            raise AttributeError(name)

        def __str__(self):
            raise RuntimeError("no words")

        @property
        def gb_type(self):
            raise RuntimeError("no kind")

    info = recorder.failures.describe(Frozen())
    assert "RuntimeError" in info.message
    assert telling._add_note(Frozen(), "x") is False
    odd = ValueError("x")
    odd.__notes__ = 5
    assert telling._notes(odd) == []
    assert telling._add_note(odd, "x") is False


def test_a_torch_whose_hooks_are_unknown_is_refused_before_the_program_runs(tmp_path, monkeypatch):
    from torch._dynamo import convert_frame

    def other(self, frame, something_else):
        raise AssertionError

    monkeypatch.setattr(convert_frame.ConvertFrameAssert, "__call__", other)
    ran = []
    with pytest.raises(UnsupportedTorchError, match=r"ConvertFrameAssert.__call__"), replay.record(tmp_path):
        ran.append(True)
    assert ran == []
    assert hooks._watches == []
    assert convert_frame.ConvertFrameAssert.__call__ is other


def test_recording_changes_no_random_number(tmp_path):
    def streams():
        torch.manual_seed(1)
        random.seed(1)
        bare(plain_function)
        return torch.randn(2).tolist(), random.random()

    alone = streams()
    with replay.record(tmp_path, tensors="metadata"):
        assert streams() == alone
    assert len(list(tmp_path.iterdir())) == 1


def test_a_cache_hit_calls_no_hook(tmp_path, monkeypatch):
    calls = []
    original = recorder.record._observe

    def observe(self, attempt):
        calls.append(attempt.fate)
        original(self, attempt)

    monkeypatch.setattr(recorder.record, "_observe", observe)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x * 2, backend="eager")
    with replay.record(tmp_path):
        for _ in range(50):
            compiled(torch.ones(3))
    assert calls == ["compiled"]


def test_a_path_with_spaces_is_quoted_in_the_command(tmp_path):
    run = recorded(tmp_path / "my failures", plain_function)
    assert f"python -m replay '{run.bundles[0]}'" in run.error.__notes__[0]


def test_a_directory_may_be_relative_and_is_found_after_chdir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = recorded("failures", plain_function)
    assert run.bundles[0].parent == Path("failures")
    assert run.bundles[0].exists()


STEPS = """
    import sys, torch, replay
    def no_relu(gm, inputs):
        raise ValueError("no relu here")
    def scale(x):
        return x.relu()
    with replay.record("failures"):
        torch.compile(scale, backend=no_relu)(torch.ones(3))
"""


def test_a_program_that_dies_of_the_failure_shows_the_note_and_under_w_error_too(tmp_path):
    script = write(tmp_path, "steps.py", STEPS)
    done = python("-W", "error::replay.RecordingWarning", script, cwd=tmp_path)
    (bundle,) = (tmp_path / "failures").iterdir()
    assert done.returncode == 1
    assert f"replay: to replay it: python -m replay failures/{bundle.name}" in done.stderr


def test_a_bundle_error_is_told_with_its_reason(tmp_path, monkeypatch):
    def write(*args, **kwargs):
        raise BundleError("disk: full; make room")

    monkeypatch.setattr(capture, "write", write)
    assert "disk: full; make room" in recorded(tmp_path, plain_function).warnings[0]


def test_recording_warnings_are_user_warnings():
    assert issubclass(RecordingWarning, UserWarning)
    assert str(Selection.of(["a", re.compile("b")])) == "a, /b/"
