"""The hook around every attempt to compile a frame."""

from __future__ import annotations

import threading

import pytest
import torch
import torch._dynamo
from programs import bare, no_relu
from torch._dynamo import convert_frame

from replay.errors import UnsupportedTorchError
from replay.torch_adapter import features, hooks


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def watched(program, gate=None):
    seen = []
    with hooks.observing(seen.append, gate):
        bare(program)
    return [(one.code.co_name, one.fate) for one in seen], seen


def test_every_fate_is_told():
    def works(x):
        return x + 1

    def fails(x):
        return x.relu()

    def breaks(x):
        try:
            torch._dynamo.graph_break()
        finally:
            x = x + 1
        return x

    def hidden():
        with torch._dynamo.config.patch(suppress_errors=True):
            torch.compile(fails, backend=no_relu)(torch.ones(2))

    one = torch.ones(2)
    assert watched(lambda: torch.compile(works, backend="eager")(one))[0] == [("works", "compiled")]
    assert watched(lambda: torch.compile(fails, backend=no_relu)(one))[0] == [("fails", "raised")]
    assert watched(hidden)[0] == [("fails", "suppressed")]
    assert watched(lambda: torch.compile(breaks, backend="eager")(one))[0][0] in (
        ("breaks", "graph_break"),
        ("breaks", "compiled"),
    )


def test_a_break_inside_a_block_that_cannot_resume_is_a_graph_break_of_the_frame():
    lock = threading.Lock()

    def breaks(x):
        with lock:
            print("x")
            return x + 1

    fates, seen = watched(lambda: torch.compile(breaks, backend="eager")(torch.ones(2)))
    assert ("breaks", "graph_break") in fates
    assert isinstance(seen[0].error, torch._dynamo.exc.Unsupported)


def test_an_attempt_shows_the_frame_as_it_was_called():
    scale = 3

    def uses(x, *rest, key=2):
        x = x * scale
        return x + key

    _, (attempt,) = watched(lambda: torch.compile(uses, backend="eager", fullgraph=True)(torch.ones(2), 7))
    assert attempt.code is uses.__code__
    assert attempt.f_globals is globals()
    assert attempt.f_locals["x"].tolist() == [1, 1]
    assert (attempt.f_locals["rest"], attempt.f_locals["key"]) == ((7,), 2)
    assert [cell.cell_contents for cell in attempt.closure] == [3]
    assert attempt.fullgraph
    assert attempt.compile_id.endswith("/0")
    assert attempt.seconds > 0


def test_compile_ids_count_as_torchs_do():
    def tag(x, name):
        return x + len(name)

    def program():
        compiled = torch.compile(tag, backend="eager")
        for name in ("a", "bb", "ccc"):
            compiled(torch.ones(2), name)

    _, seen = watched(program)
    assert [one.compile_id.partition("/")[2] for one in seen] == ["0", "1", "2"]


def test_a_limit_of_this_one_compile_is_told():
    if "recompile_limit" not in torch.compile.__annotations__:
        pytest.skip("this torch.compile takes no recompile_limit")
    _, (attempt,) = watched(
        lambda: torch.compile(lambda x: x + 1, backend="eager", recompile_limit=3)(torch.ones(2))
    )
    assert hooks.own_limit(attempt) == 3


def test_a_cache_hit_calls_nobody():
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    fates, _ = watched(lambda: [compiled(torch.ones(2)) for _ in range(20)])
    assert len(fates) == 1


def test_the_innermost_observer_comes_first_and_the_last_one_out_takes_the_patch_away():
    before = (convert_frame.ConvertFrameAssert.__call__, convert_frame.ConvertFrame.__call__)
    order = []
    with hooks.observing(lambda _: order.append("outer")):
        patched = convert_frame.ConvertFrameAssert.__call__
        assert patched is not before[0]
        with hooks.observing(lambda _: order.append("inner")):
            assert convert_frame.ConvertFrameAssert.__call__ is patched
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        assert convert_frame.ConvertFrameAssert.__call__ is patched
    assert order == ["inner", "outer"]
    assert (convert_frame.ConvertFrameAssert.__call__, convert_frame.ConvertFrame.__call__) == before


def test_a_gate_leaves_frames_uncompiled_and_the_functions_they_call_compiled():
    @torch._dynamo.disable
    def plain(f, x):
        return f(x)

    def inner(x):
        return x + 1

    def outer(x):
        return plain(inner, x) + inner(x) * 2

    fates, _ = watched(
        lambda: torch.compile(outer, backend="eager")(torch.ones(2)), lambda code: code.co_name == "inner"
    )
    assert fates == [("inner", "compiled")]


def test_an_inner_compilation_that_fails_inside_a_backend_is_told_as_its_own():
    def inner(x):
        return x.relu()

    def nested(gm, example_inputs):
        with pytest.raises(Exception, match="no relu"):
            torch.compile(inner, backend=no_relu, fullgraph=True)(torch.ones(2))
        return gm.forward

    def outer(x):
        return x + 1

    fates, _ = watched(lambda: torch.compile(outer, backend=nested)(torch.ones(2)))
    assert fates == [("inner", "raised"), ("outer", "compiled")]


def test_what_torch_raises_on_purpose_passes_through_unchanged():
    def leave(gm, example_inputs):
        raise KeyboardInterrupt

    with hooks.observing(lambda attempt: None), pytest.raises(KeyboardInterrupt):
        torch.compile(lambda x: x + 1, backend=leave)(torch.ones(2))


def test_threads_compile_side_by_side():
    seen = []
    errors = []

    def work(number):
        def own(x):
            return x.relu() if number % 2 else x + number

        errors.append(bare_in_thread(lambda: torch.compile(own, backend=no_relu)(torch.ones(2))))

    with hooks.observing(seen.append):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(error is not None for error in errors) == 2
    assert sorted(one.fate for one in seen if one.error is not None) == ["raised", "raised"]


def bare_in_thread(program):
    try:
        program()
    except Exception as error:
        return error
    return None


def test_frames_on_the_stack_are_told_by_the_users_code():
    found = []

    @torch._dynamo.disable
    def look():
        found.extend(hooks.live_frames())

    def user(x, y):
        x = x + 1
        look()
        return x + y

    torch.compile(user, backend="eager")(torch.ones(2), 5)
    assert [one.code for one in found if one.code is user.__code__] == [user.__code__]
    assert found[-1].f_locals["y"] == 5


@pytest.mark.parametrize("name", ["ConvertFrame", "ConvertFrameAssert"])
def test_a_changed_signature_is_refused_by_name(name, monkeypatch):
    monkeypatch.setattr(getattr(convert_frame, name), "__call__", lambda self, frame, other: None)
    with pytest.raises(UnsupportedTorchError, match=rf"{name}.__call__.*'other'"), hooks.observing(print):
        pass


def test_what_torch_no_longer_has_is_refused_by_name(monkeypatch):
    monkeypatch.delattr(convert_frame, "ConvertFrameAssert")
    with pytest.raises(UnsupportedTorchError, match="ConvertFrameAssert"), hooks.observing(print):
        pass
    with pytest.raises(UnsupportedTorchError, match=r"torch\.no_such_module"):
        features.module("torch.no_such_module")


@pytest.mark.parametrize(
    ("text", "outcome"), [("2.8.1", "2.9 or later"), ("2.10.0a0+git1", None), ("nightly", "nightly")]
)
def test_versions_are_compared_as_numbers(text, outcome, monkeypatch):
    monkeypatch.setattr(torch, "__version__", text)
    if outcome is None:
        features.check_hooks()
        assert features.version() == (2, 10)
        return
    with pytest.raises(UnsupportedTorchError, match=outcome):
        features.check_hooks()
