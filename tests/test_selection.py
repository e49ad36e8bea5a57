"""Function-name patterns."""

from __future__ import annotations

import re

import pytest

from replay.errors import UsageError
from replay.selection import Selection, resumed_function


def code_named(name, qualified):
    return (lambda: None).__code__.replace(co_name=name, **({"co_qualname": qualified} if QUALIFIED else {}))


QUALIFIED = hasattr((lambda: None).__code__, "co_qualname")


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("forward", True),
        ("Block.forward", True),
        ("Block.*", True),
        ("for*", True),
        ("?orward", True),
        ("Block", False),
        ("orward", False),
        ("FORWARD", False),
        ("block.forward", False),
        (re.compile("lock"), True),
        (re.compile("^forward"), False),
        (re.compile("FORWARD", re.IGNORECASE), True),
        (("x", "forward"), True),
        (["x", "y"], False),
        ({"forward"}, True),
        ((), True),
        (None, True),
    ],
)
def test_a_string_matches_as_a_whole_and_an_expression_is_searched(pattern, meant):
    assert Selection.of(pattern).matches("forward", "Block.forward") is meant


@pytest.mark.parametrize(
    "wrong", ["", [""], 5, [5], b"forward", [None], re.compile(b"x"), object(), {"f": ""}.values()]
)
def test_what_is_no_pattern_is_a_usage_error(wrong):
    with pytest.raises(UsageError, match="function pattern"):
        Selection.of(wrong)


@pytest.mark.parametrize(
    ("name", "resumed"),
    [
        ("torch_dynamo_resume_in_forward_at_12", "forward"),
        ("torch_dynamo_resume_in_a_at_b_at_3", "a_at_b"),
        ("torch_dynamo_resume_in_torch_dynamo_resume_in_f_at_1_at_22", "f"),
        ("torch_dynamo_resume_in_<lambda>_at_1", "<lambda>"),
        ("forward", None),
        ("torch_dynamo_resume_in_forward", None),
        ("x_torch_dynamo_resume_in_forward_at_1", None),
    ],
)
def test_the_name_of_a_resume_function_tells_what_it_resumes(name, resumed):
    assert resumed_function(name) == resumed


@pytest.mark.skipif(not QUALIFIED, reason="code objects have no qualified name before Python 3.11")
@pytest.mark.parametrize(
    "pattern", ["forward", "Block.forward", "Block.*", re.compile("^Block"), "torch_dynamo_resume*"]
)
def test_a_resume_function_counts_as_the_function_that_it_resumes(pattern):
    name = "torch_dynamo_resume_in_forward_at_12"
    code = code_named(name, f"Block.{name}")
    assert Selection.of(pattern).matches_code(code)
    assert not Selection.of("backward").matches_code(code)


def test_a_selection_prints_as_a_person_writes_it():
    assert str(Selection.of(["Block.*", re.compile("^a|b$")])) == "Block.*, /^a|b$/"
