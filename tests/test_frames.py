"""Code objects and local variables: arguments, closures, globals."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from replay.errors import MissingError
from replay.recorder import frames

LIMIT = None
FACTOR = 3
other = len


def attempt_of(function, *args, **kwargs):
    """What the hook gives of a call, taken at the first instruction."""
    import sys

    seen = {}

    def trace(frame, event, arg):
        if frame.f_code is function.__code__ and not seen:
            seen.update(frame.f_locals)
        return

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*args, **kwargs)
    finally:
        sys.settrace(before)
    return SimpleNamespace(
        code=function.__code__,
        f_globals=function.__globals__,
        f_locals=seen,
        closure=function.__closure__ or (),
    )


def all_kinds(a, /, b, c=3, *rest, key, other=5, **more):
    return a, b, c, rest, key, other, more


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((1, 2), {"key": 4}),
        ((1, 2, 7, 8, 9), {"key": 4, "z": 1}),
        ((1,), {"b": 2, "key": 4, "other": 6, "x": 0, "y": 0}),
    ],
)
def test_calling_again_with_the_arguments_of_a_frame_is_the_same_call(args, kwargs):
    positional, keywords = frames.arguments(
        all_kinds.__code__, attempt_of(all_kinds, *args, **kwargs).f_locals
    )
    assert all_kinds(*positional, **keywords) == all_kinds(*args, **kwargs)


def test_arguments_that_closures_hold_are_arguments():
    def outer(x, y):
        def inner():
            return x + y

        return inner()

    assert frames.inputs_of(attempt_of(outer, 1, 2)).arguments == ((1, 2), {})


def test_an_argument_that_is_gone_is_missing_by_name():
    with pytest.raises(MissingError, match=r"'b' of 'all_kinds' was deleted"):
        frames.arguments(all_kinds.__code__, {"a": 1})


def test_closure_variables_are_named_and_empty_cells_are_left_out():
    scale = 2

    def uses(x):
        return x * scale if x else later

    found = frames.inputs_of(attempt_of(uses, 1))
    later = 5
    assert found.closure == {"scale": 2}
    assert frames.inputs_of(attempt_of(uses, 1)).closure == {"scale": 2, "later": 5}
    assert later == 5


def test_globals_are_those_that_are_used_and_are_data():
    def uses(x):
        return (
            [FACTOR for _ in range(x)],
            LIMIT,
            other,
            frames,
            pytest.raises,
            len,
            attempt_of,
            SimpleNamespace,
        )

    assert frames.inputs_of(attempt_of(uses, 1)).globals == {"FACTOR": 3, "LIMIT": None}


def test_the_last_line_counts_nested_code():
    def outer():
        return [
            lambda: (
                1
            )
        ]  # fmt: skip

    assert frames.last_line(outer.__code__) == outer.__code__.co_firstlineno + 3


def test_code_travels_as_text_if_the_text_has_it_else_as_bytecode():
    here = all_kinds.__code__
    with open(__file__, encoding="utf-8") as file:
        text = file.read()
    assert frames.code_kind(here, {here.co_filename: text}) == "source"
    assert frames.code_kind(here, {here.co_filename: "x = 1\n"}) == "bytecode"
    assert frames.code_kind(compile("1", "<nowhere>", "eval"), {}) == "bytecode"
    assert frames.code_kind(pytest.raises.__code__, {}) == "installed"
