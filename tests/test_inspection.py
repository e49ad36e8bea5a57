from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from gold import assert_gold
from specimens import ERROR, MANIFEST, MODEL, MODEL_TEXT, OTHER_ERROR, StandIn

from replay.recording import Entry, InputInfo, LeftOut, StorageSpec, Substitution, TensorSpec, UserFrame
from replay.report.inputs import contiguous, describe_tensor
from replay.report.inspection import draw_inspection
from replay.report.plain import manifest_json, to_plain
from replay.report.text import clean, headline, show_seconds, show_size, show_value
from replay.report.values import describe_substitution

EVIL = "a\x1b[31mred\x1b]0;title\x07[bold]b[/bold]:smile:\u202ekcab\x9b2J\ud800\u2028"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def draw(bundle=None):
    stream = io.StringIO()
    draw_inspection(bundle or StandIn(), stream)
    return stream.getvalue()


def changed(**changes):
    return StandIn(manifest=replace(MANIFEST, **changes))


@pytest.fixture(autouse=True)
def _plain_pipe(monkeypatch):
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_an_inspection_in_a_pipe_looks_as_the_gold_file():
    assert_gold("inspection.txt", draw())


def test_an_inspection_of_a_recorded_success_has_no_failure():
    assert_gold("inspection_success.txt", draw(changed(event="success", error=None, missing=(), calls=())))


def test_a_bundle_without_source_says_so_and_still_shows_the_failing_line():
    text = draw(StandIn(texts={}))
    assert "(no source was recorded; the code travels as source)" in text
    assert 'print("squashing", y.shape)' in text


def test_tables_keep_to_eighty_columns_in_a_pipe_and_no_line_ends_in_blanks():
    long = InputInfo("a_name_of_some_length" * 3, "global", "x." + "T" * 60, "word " * 60)
    lines = draw(changed(inputs=(long,) * 2, config={"inductor.x": "v" * 300})).splitlines()
    start, end = lines.index(next(line for line in lines if line.startswith("Inputs"))), len(lines)
    assert max(len(line) for line in lines[start:end]) <= 80
    assert not [line for line in lines if line != line.rstrip()]


def test_columns_sets_the_width_of_a_pipe(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    lines = draw().splitlines()
    start = lines.index(next(line for line in lines if line.startswith("Environment")))
    stop = lines.index(next(line for line in lines if line.startswith("Missing")))
    assert max(len(line) for line in lines[start:stop]) <= 50


def test_a_terminal_gets_colour_and_highlighted_source():
    stream = Terminal()
    draw_inspection(StandIn(), stream)
    assert "\x1b[" in stream.getvalue()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert "     13 |     def forward(self, x, scale=2.0):\n" in plain
    assert ">    17 |         return squash(y)\n" in plain


def test_no_color_on_a_terminal_means_none(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    draw_inspection(StandIn(), stream)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", stream.getvalue())


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_nothing_in_a_bundle_reaches_the_terminal_as_an_escape_or_as_markup(stream):
    manifest = replace(
        MANIFEST,
        created=EVIL,
        frame=replace(MANIFEST.frame, function=EVIL),
        error=replace(ERROR, message=EVIL * 2, type=EVIL, user_frames=(UserFrame(EVIL, 1, EVIL, EVIL),) * 2),
        inputs=(InputInfo(EVIL, "argument", EVIL, EVIL),),
        config={EVIL: EVIL},
        state={EVIL: EVIL},
        environment=replace(MANIFEST.environment, cpu=EVIL, packages={EVIL: EVIL}, variables={EVIL: EVIL}),
        entries={EVIL: Entry(1, "")},
        process={EVIL: EVIL},
        shipped=(EVIL,),
    )
    out = stream()
    draw_inspection(StandIn(manifest, EVIL, texts={MODEL: MODEL_TEXT.replace("self", EVIL)}), out)
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())  # our own colours
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\ud800]", text)
    text.encode("utf-8")
    assert "[bold]" in text
    assert ":smile:" in text
    assert "\x1b[31mred" not in out.getvalue()


def test_clean_is_idempotent_and_keeps_newlines_and_letters():
    assert clean("größe\n\tx") == "größe\n    x"
    assert clean(clean(EVIL)) == clean(EVIL)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (ERROR.message, "Failed to trace builtin operator"),
        (OTHER_ERROR.message, "ValueError: no relu here"),
        (
            "backend='inductor' raised:\nCppCompileError: C++ compile error\n\nCommand:\ng++ -x\n\nOutput:\n"
            "/tmp/a.cpp: In function\n/tmp/a.cpp:3:5: error: 'foo' was not declared",
            "/tmp/a.cpp:3:5: error: 'foo' was not declared",
        ),
        ("backend='x' raised:", "backend='x' raised:"),
        ("C++ compile error", "C++ compile error"),
        ("from user code:\n  x", "from user code:"),
        ("\n\nlate", "late"),
        ("", ""),
    ],
)
def test_the_headline_is_the_line_that_says_most(message, expected):
    assert headline(message) == expected


def test_a_long_message_is_cut_and_says_by_how_much():
    message = "\n".join(f"line {number}" for number in range(100))
    text = draw(changed(error=replace(ERROR, message=message)))
    assert "line 24\n" in text
    assert "line 25\n" not in text
    assert "... 75 more lines (--json has all)" in text


def test_a_long_function_is_shown_around_the_failing_line_with_its_head():
    body = "def long(x):\n" + "".join(f"    x = x + {number}\n" for number in range(200))
    frame = replace(MANIFEST.frame, first_line=1, last_line=201)
    error = replace(ERROR, user_frames=(UserFrame(MODEL, 100, "long", ""),))
    text = draw(StandIn(replace(MANIFEST, frame=frame, error=error), texts={MODEL: body}))
    assert "      1 | def long(x):\n       ...\n     96 |" in text
    assert ">   100 |     x = x + 98\n" in text
    assert "x + 110" not in text


def test_a_source_that_is_shorter_than_the_line_says_so():
    text = draw(StandIn(texts={MODEL: "x = 1\n"}))
    assert "(the recorded text has 1 lines; line 17 is not in it)" in text


def test_many_inputs_entries_and_frames_are_counted():
    inputs = tuple(InputInfo(f"g{number}", "global", "int", "1") for number in range(60))
    users = tuple(UserFrame(MODEL, 13, "forward", "x") for _ in range(20))
    text = draw(changed(inputs=inputs, error=replace(ERROR, user_frames=users)))
    assert "... 20 more (--json has all)" in text
    assert "... 8 outer frames (--json has all)" in text


def test_a_tensor_is_described_by_all_that_decides_how_it_compiles():
    spec = TensorSpec((2, 3), (3, 1), 0, "float32", "cuda:0", "s")
    assert describe_tensor(spec) == "float32[2, 3] cuda:0"
    odd = replace(spec, stride=(1, 2), offset=4, requires_grad=True, is_leaf=False, conj=True)
    assert describe_tensor(odd) == (
        "float32[2, 3] cuda:0, stride [1, 2], offset 4, requires_grad, not a leaf, conj"
    )
    assert contiguous((2, 0, 3)) == (3, 3, 1)
    assert contiguous(()) == ()


def test_values_say_whether_they_are_the_recorded_ones():
    def row(storage):
        spec = TensorSpec((1,), (1,), 0, "float32", "cpu", None if storage is None else "s")
        storages = {} if storage is None else {"s": storage}
        inputs = (InputInfo("x", "argument", "torch.Tensor", "", ("t",)),)
        text = draw(changed(inputs=inputs, tensors={"t": spec}, storages=storages))
        return next(line for line in text.splitlines() if line.startswith("  x ")).split()[-1]

    assert row(StorageSpec(4, 0, 4, "cpu", "blobs/s")) == "real"
    assert row(StorageSpec(4, 0, 4, "cpu", None)) == "synthetic"
    assert row(None) == "none"


def test_of_many_storages_and_things_left_out_the_largest_are_shown_and_the_rest_counted():
    storages = {f"s{n}": StorageSpec(n, 0, n, "cpu", None if n % 2 else "blobs/x") for n in range(1, 41)}
    left = tuple(LeftOut(f"self.block{n}", "nets.Block", n) for n in range(30))
    text = draw(changed(storages=storages, left_out=left))
    values = text.split("\nValues")[1].split("\nLeft out")[0]
    assert "20 real (420 B), 20 synthetic (400 B)" in values.splitlines()[0]
    assert "s40" in values
    assert "... 28 smaller: 14 real (210 B), 14 synthetic (196 B)" in values
    assert "self.block29" in text
    assert "... 18 more" in text
    plain = json.loads(manifest_json(changed(storages=storages).manifest, path="x", size=1))
    assert {key: one["values"] for key, one in plain["storages"].items()} == {
        key: "synthetic" if one.entry is None else "real" for key, one in storages.items()
    }


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Substitution(True, True, seconds=2.0), "the failure comes back as it is"),
        (Substitution(None, None, "no answer within 300 s"), "not known .* as it is: no answer within 300 s"),
        (
            Substitution(False, True, "passed", kept=("s0", "s1"), whole=True),
            r"comes back with 2 storages kept real for it and nothing left out; without, it did not \(passed\)",
        ),
        (
            Substitution(False, None, "no answer"),
            "not known whether it does with nothing more to keep: no answer",
        ),
        (Substitution(False, False, "passed", whole=True), "does not come back in a fresh process .passed."),
    ],
)
def test_what_the_check_found_is_one_line(found, words):
    assert re.search(words, describe_substitution(found))


def test_the_json_of_a_manifest_is_one_object_with_bytes_and_odd_floats_named():
    manifest = replace(MANIFEST, config={"x": float("nan"), "y": (1, {2: None}), "z": {"b", "a"}})
    found = json.loads(manifest_json(manifest, path="x\x1b.rec", size=7))
    assert found["bundle"] == "x\x1b.rec"
    assert found["size"] == 7
    assert found["error"]["user_frames"][0] == {
        "file": MODEL,
        "line": 17,
        "function": "forward",
        "code": "return squash(y)",
    }
    assert found["config"] == {"x": "NaN", "y": [1, {"2": None}], "z": ["a", "b"]}
    assert found["state"]["generators"]["torch"]["bytes"] == 5056
    assert "\x1b" not in manifest_json(manifest, path=EVIL, size=7)


def test_plain_values_of_every_kind():
    assert to_plain(b"\x00a") == {"bytes": 2, "base64": "AGE="}
    assert to_plain([float("inf"), -float("inf"), 1.5]) == ["Infinity", "-Infinity", 1.5]
    assert to_plain(3 + 4j) == "(3+4j)"


def test_numbers_for_people():
    assert [show_size(n) for n in (0, 1023, 1536, 5 << 20, 3 << 30, 2 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KB",
        "5.0 MB",
        "3.0 GB",
        "2.0 TB",
    ]
    assert [show_seconds(s) for s in (0.0031, 1.25, 12.62)] == ["0.003 s", "1.25 s", "12.6 s"]
    assert show_value({"a": [b"123", "x" * 100]}, 20) == "{'a': [3 bytes, '..."
