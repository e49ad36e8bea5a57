"""What makes two failures the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay import fingerprint
from replay.recording import UserFrame

FAILURE = {
    "stage": "dynamo",
    "type": "torch._dynamo.exc.Unsupported",
    "inner_type": None,
    "gb_type": "Call to print",
    "user_frames": (
        UserFrame("/a/train.py", 9, "step", "loss = net(x)"),
        UserFrame("/a/net.py", 20, "forward", "print(x)"),
    ),
    "title": "Failed to trace builtin operator",
    "raised_in": "torch/_dynamo/exc.py:unimplemented",
}


def of(**changes):
    return fingerprint.compute(**{**FAILURE, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"user_frames": (UserFrame("/elsewhere/net.py", 222, "forward", "print(x)"),)},
        {"title": "Failed  to trace\tbuiltin operator "},
    ],
)
def test_paths_lines_outer_frames_and_white_space_do_not_count(changes):
    assert of(**changes) == of()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 0x7f00aa112233", "at 0x7f11bb998877"),
        ("size 13 at index 4", "size 7 at index 12"),
        ("in /home/ann/nets/block.py", "in /srv/x/block.py"),
        (r"in C:\nets\block.py", "in /srv/x/block.py"),
    ],
)
def test_addresses_numbers_and_directories_in_a_title_do_not_count(one, other):
    assert of(title=one) == of(title=other)


@pytest.mark.parametrize(
    "changes",
    [
        {"stage": "backend"},
        {"type": "ValueError"},
        {"inner_type": "ValueError"},
        {"gb_type": "Call to open"},
        {"gb_type": None},
        {"user_frames": ()},
        {"user_frames": (UserFrame("/a/net.py", 20, "backward", "print(x)"),)},
        {"user_frames": (UserFrame("/a/net.py", 20, "forward", "print(y)"),)},
    ],
)
def test_stage_types_kind_function_and_line_are_the_core(changes):
    assert fingerprint.core(of(**changes)) != fingerprint.core(of())
    assert not fingerprint.same(of(), of(**changes), same_torch=False)


@pytest.mark.parametrize(
    "changes", [{"title": "Another title"}, {"raised_in": "torch/_dynamo/x.py:f"}, {"raised_in": None}]
)
def test_title_and_place_in_torch_count_within_one_torch_only(changes):
    assert of(**changes) != of()
    assert not fingerprint.same(of(), of(**changes), same_torch=True)
    assert fingerprint.same(of(), of(**changes), same_torch=False)


def test_fields_do_not_run_into_each_other():
    assert of(stage="a", type="bc") != of(stage="ab", type="c")


@given(st.text(max_size=60))
def test_normalising_twice_changes_nothing_and_never_fails(text):
    once = fingerprint.normalise(text)
    assert fingerprint.normalise(once) == once


def test_texts_are_the_same_to_a_person_without_addresses_directories_and_carets():
    one = 'Error at 0x7f00aa\n  File "/a/b/net.py", line 3\n    f(x)\n    ~^^^\n\n'
    other = 'Error at 0x7f11bb\n  File "/c/net.py", line 3\n    f(x)\n'
    assert fingerprint.same_text(one, other)
    assert not fingerprint.same_text(one, other.replace("line 3", "line 4"))
