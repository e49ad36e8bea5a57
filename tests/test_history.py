"""Earlier calls: what is kept of them, and that nothing of the user's is kept alive."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import NamedTuple

import pytest
import torch
from programs import no_relu, recorded

import replay
from replay.recorder import history
from replay.recorder.history import Gone, History, revive, sketch
from replay.torch_adapter import hooks, sketches


class Thing:
    def show(self):
        return self.number


def attempt(code, compile_id, **f_locals):
    return hooks.Attempt(code, {}, f_locals, (), None, compile_id, "compiled", None, 0.0)


def code_of(text="lambda x: x", name="<a>"):
    return next(c for c in compile(text, name, "eval").co_consts if hasattr(c, "co_code"))


def calls_of(kept, code):
    return [call.f_locals["x"] for call in kept.before(attempt(code, "0/9"))]


def test_calls_come_back_in_order_and_the_oldest_are_dropped(monkeypatch):
    monkeypatch.setattr(history, "KEPT", 3)
    kept, code = History(), code_of()
    for number in range(5):
        kept.note(attempt(code, f"0/{number}", x=number))
    assert calls_of(kept, code) == [2, 3, 4]
    assert kept.last(code).compile_id == "0/4"
    kept.clear()
    assert (calls_of(kept, code), kept.last(code)) == ([], None)


def test_a_first_compilation_forgets_what_was_before_as_torch_does():
    kept, code = History(), code_of()
    for compile_id in ("0/0", "0/1", "3/0", "3/1"):
        kept.note(attempt(code, compile_id, x=compile_id))
    assert calls_of(kept, code) == ["3/0", "3/1"]


def test_equal_code_of_two_functions_is_kept_apart():
    kept, one, other = History(), code_of(name="<a>"), code_of(name="<b>")
    assert one == other
    kept.note(attempt(one, "0/0", x=1))
    kept.note(attempt(other, "1/0", x=2))
    assert (calls_of(kept, one), calls_of(kept, other)) == ([1], [2])


PLAIN = [
    1,
    2.5,
    1j,
    True,
    "text",
    b"bytes",
    None,
    ...,
    [1, (2, [3])],
    {"a": [1], 2: "b"},
    {1, 2},
    frozenset({1, 2}),
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_come_back_equal(value):
    assert revive(sketch(value), None) == value


def test_containers_are_copied_so_that_later_changes_do_not_show():
    value = {"list": [1], "set": {1}}
    kept = sketch(value)
    value["list"].append(2)
    value["set"].add(2)
    assert revive(kept, None) == {"list": [1], "set": {1}}


def test_no_object_of_the_users_is_kept_alive():
    holders = [
        lambda one: one,
        lambda one: [one],
        lambda one: {"a": {"b": one}},
        lambda one: {one},
        lambda one: frozenset([one]),
        lambda one: {one: 1},
        lambda one: lambda: one,
        lambda one: Thing.__init__.__get__(one),
        lambda one: torch.ones(2) if one is None else one.tensor,
    ]
    kept, gone = [], []
    for holder in holders:
        thing = Thing()
        thing.tensor = torch.ones(3)
        kept.append(sketch(holder(thing)))
        gone.append(weakref.ref(thing))
        del thing
    gc.collect()
    assert [one() for one in gone] == [None] * len(holders)
    assert len(kept) == len(holders)


def test_what_lives_comes_back_itself_and_what_is_gone_says_so():
    thing = torch.nn.Linear(2, 2)
    kept = sketch([thing])
    assert revive(kept, None) == [thing]
    del thing
    gc.collect()
    assert isinstance(revive(kept, None)[0], Gone)
    assert isinstance(sketch(iter([])), Gone)


class Pair(NamedTuple):
    first: object
    second: object


def test_what_is_gone_and_holds_only_parts_is_made_of_them_again():
    def program():
        thing = Thing()
        thing.number, thing.names = 3, ["a"]
        free = torch.ones(3)
        return sketch(
            {
                "object": thing,
                "method": thing.show,
                "function": lambda x, y=2: (x + y, free.shape),
                "partial": functools.partial(max, 5),
                "tuple": Pair(1, torch.float16),
            }
        )

    kept = program()
    gc.collect()
    found = revive(kept, lambda one: one.meta)
    assert (type(found["object"]), vars(found["object"])) == (Thing, {"number": 3, "names": ["a"]})
    assert found["method"]() == 3
    assert found["function"](1) == (3, torch.Size([3]))
    assert found["partial"](3) == 5
    assert found["tuple"] == Pair(1, torch.float16)


def test_structures_that_are_deep_wide_or_endless_are_cut():
    endless = []
    endless.append(endless)
    deep = [[[[[[1]]]]]]
    for value in (endless, deep, list(range(1000)), {n: n for n in range(1000)}, set(range(1000))):
        sketch(value)
    assert isinstance(sketch(list(range(1000))), Gone)


def test_a_tensor_is_kept_as_metadata():
    tensor = torch.zeros(4, 6, dtype=torch.float16, requires_grad=True).t()
    kept = sketch(tensor)
    assert kept.meta.device.type == "meta"
    assert (kept.meta.shape, kept.meta.stride(), kept.meta.dtype) == (
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
    )
    assert (kept.device, kept.parameter, kept.class_name) == ("cpu", False, "torch.Tensor")
    assert kept.meta.requires_grad
    assert kept.alive() is tensor
    assert revive([kept], lambda one: one.device) == ["cpu"]
    assert sketch(torch.nn.Parameter(torch.ones(1))).parameter


def odd_tensors():
    class Sub(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("the user's code ran")

    yield torch.ones(2).as_subclass(Sub)
    yield torch.eye(3).to_sparse()
    yield torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    yield torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    yield torch.ones(2, device="meta")
    yield torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    with torch.inference_mode():
        yield torch.ones(2)


@pytest.mark.filterwarnings("ignore")
def test_no_kind_of_tensor_makes_a_sketch_fail():
    for tensor in odd_tensors():
        assert isinstance(sketch(tensor), (sketches.Tensor, Gone))


def test_a_failure_that_needs_the_earlier_calls_is_replayed_with_them(tmp_path):
    def static_only(gm, example_inputs):
        if any(isinstance(value, torch.SymInt) for value in example_inputs):
            raise NotImplementedError("no dynamic shapes")
        return gm.forward

    def program():
        def half(x, mode):
            return x[: x.shape[0] // 2] * 2

        compiled = torch.compile(half, backend=static_only)
        compiled(torch.ones(4), {"a": Thing()})
        compiled(torch.ones(6), {"a": Thing()})

    run = recorded(tmp_path, program)
    assert [call.compile_id for call in run.manifest.calls] == ["0/0"]
    outcome = replay.run(run.bundles[0], isolate=False)
    assert outcome.status == "reproduced"
    assert "1 earlier call was repeated" in outcome.notes[0]


def test_earlier_calls_take_no_tensor_bytes(tmp_path):
    def program():
        def tag(x, name):
            return x.relu() if name == "last" else x + 1

        compiled = torch.compile(tag, backend=no_relu)
        for name in ("a", "b", "last"):
            compiled(torch.randn(1000, 1000), name)

    run = recorded(tmp_path, program)
    assert len(run.manifest.calls) == 2
    assert run.bundles[0].stat().st_size < 100_000
