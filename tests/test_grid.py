"""The grid of settings: a recorded sequence under limits and dynamic shapes, its table, its bars and its picture."""

from __future__ import annotations

import io
import itertools
import re
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
from click.testing import CliRunner
from gold import assert_gold
from hypothesis import given
from hypothesis import strategies as st
from programs import ROOT, here

import replay
from replay.cli.grid import check_picture, with_grid, write_picture
from replay.errors import UsageError
from replay.findings.recompiles import Cell, Count
from replay.recompilation.counting import count
from replay.recompilation.grid import LIMITS, grid
from replay.recording import CallOutcome, FrameOutcome, Missing, Outcome
from replay.replayer import Trials
from replay.report import chart
from replay.report.grid import draw_grid
from replay.report.page import Page
from replay.report.plain import to_plain

RECORDINGS = ROOT / "recordings"
SIZES = RECORDINGS / "recompile_sizes.rec"

# --- real replays


@pytest.fixture(scope="module")
def sizes():
    """Eight calls of one function, each with another size, under the limits of FINDINGS.md; and what was heard."""
    heard = []
    with replay.load(SIZES) as bundle, Trials(bundle) as trials:
        return grid(bundle, trials, limits=(64, 1, 2, 8), heard=heard.append), heard


def test_eight_calls_with_changing_sizes_compile_as_the_limit_and_dynamic_let_them(sizes):
    compiles = {}
    for one in sizes[0]:
        compiles.setdefault(one.dynamic, {})[one.limit] = one.count.compiles
    assert compiles == {
        True: {1: 1, 2: 2, 8: 2, 64: 2},
        False: {1: 1, 2: 2, 8: 8, 64: 8},
        None: {1: 1, 2: 2, 8: 3, 64: 3},
    }


def test_every_call_is_a_compilation_a_hit_or_ran_uncompiled(sizes):
    for one in sizes[0]:
        assert one.count.compiles + one.count.hits + one.count.uncompiled == 8
        assert one.count.errors == 0
        assert one.count.seconds > 0
    at_one = next(one.count for one in sizes[0] if (one.dynamic, one.limit) == (None, 1))
    assert (at_one.hits, at_one.uncompiled) == (0, 7)


def test_each_cell_is_heard_once_and_they_come_in_order(sizes):
    cells, heard = sizes
    assert sorted(heard, key=cells.index) == list(cells)
    assert [(one.dynamic, one.limit) for one in cells] == [
        (dynamic, limit) for dynamic in (True, False, None) for limit in (1, 2, 8, 64)
    ]


def test_a_limit_that_fullgraph_makes_an_error_is_counted_as_an_error():
    outcome = here(RECORDINGS / "recompile_functions.rec", recompile_limit=2, fullgraph=True)
    found = count(outcome.calls)
    assert (found.compiles, found.uncompiled, found.errors) == (2, 0, 2)
    assert all("FailOnRecompileLimitHit" in one.error for one in outcome.calls[2:])


def test_an_accumulated_limit_is_another_one():
    with replay.load(RECORDINGS / "recompile_strings.rec") as bundle, Trials(bundle) as trials:
        cells = grid(bundle, trials, limits=(8,), accumulated=(3, 64), dynamics=(None,))
    assert [(one.accumulated, one.count.compiles) for one in cells] == [(3, 3), (64, 4)]
    assert cells[0].count.uncompiled > 0


def test_a_trial_that_is_refused_is_a_cell_that_says_why():
    with replay.load(SIZES) as bundle, Trials(bundle) as trials:
        cells = grid(bundle, trials, limits=(2,), dynamics=(None,), options={"backend": "nonesuch"})
    assert [(one.count, "nonesuch" in one.refused) for one in cells] == [(None, True)]


# --- which trials are made


class Simulated:
    """In place of Trials: calls with keys, an entry for each key until the limit; and a frame inside with its own."""

    def __init__(self, keys, inner=()):
        self.keys, self.inner, self.asked = keys, inner, []

    def submit(self, trial):
        self.asked.append(trial)
        future = Future()
        future.set_result(replace(trial, outcome=self.outcome(trial.options["recompile_limit"])))
        return future

    def outcome(self, limit):
        fates, inner = list(fates_of(self.keys, limit)), list(fates_of(self.inner, limit))
        calls = tuple(CallOutcome(fate=fate, seconds=0.5 * (fate == "compiled")) for fate in fates)
        frames = [FrameOutcome("f", "f.py", 1, one.count("compiled"), 0, 0.0) for one in (fates, inner)]
        return replace(OUTCOME, calls=calls, frames=tuple(frames))


def fates_of(keys, limit):
    entries, full = set(), False
    for key in keys:
        if key in entries:
            yield "hit"
        elif full or len(entries) >= limit:
            full = True
            yield "uncompiled"
        else:
            entries.add(key)
            yield "compiled"


OUTCOME = Outcome("x.rec", "passed", "eager", "f", None, None)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=40), st.lists(st.integers(0, 20), max_size=20))
def test_what_is_not_tried_is_what_a_trial_would_have_given(keys, inner):
    trials = Simulated(keys, inner)
    with replay.load(SIZES) as bundle:
        cells = grid(bundle, trials, dynamics=(None,))
    assert [one.limit for one in cells] == list(LIMITS)
    for one in cells:
        assert one.count == count(trials.outcome(one.limit).calls)


def test_limits_that_cannot_be_hit_are_not_tried_one_by_one():
    trials = Simulated([1, 2, 1, 2])
    with replay.load(SIZES) as bundle:
        grid(bundle, trials, dynamics=(None,))
    assert [one.options["recompile_limit"] for one in trials.asked] == [64, 2, 1]


def test_a_limit_that_another_frame_would_hit_is_tried():
    trials = Simulated([1, 1, 1], inner=range(9))
    with replay.load(SIZES) as bundle:
        grid(bundle, trials, dynamics=(None,))
    assert [one.options["recompile_limit"] for one in trials.asked] == [64, 8, 4, 2, 1]


def test_automatic_does_without_what_the_program_asked_for():
    trials = Simulated([1])
    with replay.load(SIZES) as bundle:  # recorded with dynamic=False
        grid(
            bundle, trials, limits=(8,), dynamics=(None, False), options={"without": ("state.grad_enabled",)}
        )
    assert [(one.options["dynamic"], one.options["without"]) for one in trials.asked] == [
        (None, ("state.grad_enabled", "compile.dynamic")),
        (False, ("state.grad_enabled",)),
    ]


@pytest.mark.parametrize("wrong", [{"limits": (0,)}, {"limits": ()}, {"accumulated": (True,)}])
def test_a_limit_that_is_none_is_refused(wrong):
    with replay.load(SIZES) as bundle, pytest.raises(UsageError, match="limits: "):
        grid(bundle, Simulated([1]), **wrong)


def test_a_bundle_without_a_sequence_is_refused_with_what_to_do():
    with (
        replay.load(RECORDINGS / "recompile_attribute.rec") as bundle,
        pytest.raises(UsageError, match="holds no sequence of calls; record the program with --on recomp"),
    ):
        grid(bundle, Simulated([1]))


def test_an_outcome_without_calls_says_what_it_lacks():
    class Lacking(Simulated):
        def outcome(self, limit):
            return replace(OUTCOME, status="missing", missing=(Missing("cuda", "", "no device"),))

    with replay.load(SIZES) as bundle:
        (cell,) = grid(bundle, Lacking([1]), limits=(8,), dynamics=(None,))
    assert (cell.count, cell.refused) == (None, "missing: cuda (no device)")


def test_a_call_that_raised_ran_neither_way():
    calls = [
        CallOutcome("compiled", seconds=1.0, error="ValueError: x"),
        CallOutcome("uncompiled", seconds=0.5, error="FailOnRecompileLimitHit: y"),
        CallOutcome("uncompiled"),
        CallOutcome("hit"),
    ]
    assert count(calls) == Count(compiles=1, hits=1, uncompiled=1, errors=2, seconds=1.5)


# --- the report


def cell(dynamic, limit, *numbers, accumulated=None, refused=""):
    return Cell(dynamic, limit, accumulated, Count(*numbers) if numbers else None, refused)


CELLS = (
    cell(True, 1, 1, 6, 1, 0, 0.04),
    cell(True, 8, 2, 6, 0, 0, 0.081),
    cell(False, 1, 1, 0, 7, 0, 0.012),
    cell(False, 8, 6, 0, 0, 2, 12.25),
    cell(None, 1, refused="the backend\x1b[31m is not here"),
    cell(None, 8, 3, 5, 0, 0, 1.2),
)


def drawn(cells):
    stream = io.StringIO()
    draw_grid(Page(stream), cells)
    return stream.getvalue()


@pytest.fixture
def _plain_pipe(monkeypatch):
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_plain_pipe")
def test_the_table_and_the_bars_are_as_the_gold_file():
    text = drawn(CELLS)
    assert text.isascii() and "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert_gold("grid.txt", text)


@pytest.mark.usefixtures("_plain_pipe")
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 3))
def test_bars_of_many_calls_fit_and_show_every_part_that_is_there(compiles, hits, errors):
    text = drawn([cell(None, 64, compiles, hits, 1, errors, 1.0), cell(False, 64, 1, 0, 0, 0, 1.0)])
    bar = next(line for line in text.splitlines() if re.match(r" +64  [#=.!]", line))
    assert max(map(len, text.splitlines())) <= 80
    for letter, number in zip("#=.!", (compiles, hits, 1, errors), strict=True):
        assert (letter in bar) == bool(number)


def test_nothing_is_drawn_of_no_cells():
    assert drawn(()) == ""


@pytest.mark.usefixtures("_plain_pipe")
def test_each_accumulated_limit_has_its_own_table():
    text = drawn([replace(one, accumulated=limit) for limit in (8, 256) for one in CELLS])
    assert text.index("accumulated limit 8") < text.index("accumulated limit 256")


def test_the_grid_is_plain_data():
    first = to_plain(CELLS)[0]
    assert first["count"] == {"compiles": 1, "hits": 6, "uncompiled": 1, "errors": 0, "seconds": 0.04}
    assert (first["dynamic"], first["limit"], first["accumulated"], first["refused"]) == (True, 1, None, "")


# --- the picture

SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_has_a_bar_for_each_cell_and_a_text_for_each_limit():
    root = ElementTree.fromstring(chart.chart(CELLS, "f"))
    groups = root.findall(f"{SVG}g")
    told = [one.findtext(f"{SVG}title") for one in groups]
    assert "dynamic=False, limit 8: 6 compiled, 2 raised" in told
    assert len(groups) == 5  # one was refused
    words = [one.text for one in root.iter(f"{SVG}text")]
    assert {"1", "8", chart.REFUSED, "dynamic=True", "automatic", "recompile limit"} <= set(words)


def test_the_heights_of_the_bars_are_the_numbers_of_the_calls():
    root = ElementTree.fromstring(chart.chart(CELLS, "f"))
    heights = {}
    for group in root.findall(f"{SVG}g"):
        for box in group.findall(f"{SVG}rect"):
            number = int(re.search(rf"(\d+) {chart.WORDS[box.get('class').split()[1]]}", group[0].text)[1])
            heights.setdefault(number, set()).add(round(float(box.get("height")) / number, 1))
    assert len(set.union(*heights.values())) == 1


@pytest.mark.parametrize("limits", [1, 6, 30])
def test_no_two_bars_are_in_one_place(limits):
    cells = [
        cell(dynamic, n, 1, 2, 0, 0, 0.0) for dynamic in (True, False, None) for n in range(1, limits + 1)
    ]
    root = ElementTree.fromstring(chart.chart(cells, "f"))
    boxes = sorted(
        {(float(one.get("x")), float(one.get("width"))) for one in root.iterfind(f"{SVG}g/{SVG}rect")}
    )
    assert len(boxes) == 3 * limits
    assert all(x + width < following for (x, width), (following, _) in itertools.pairwise(boxes))


def test_the_picture_runs_nothing_and_asks_for_nothing():
    text = chart.chart(CELLS, "f")
    assert text == chart.chart(CELLS, "f")
    root = ElementTree.fromstring(text)
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= {
        *("svg", "title", "desc", "style", "rect", "line", "text", "g")
    }
    names = {name for one in root.iter() for name in one.attrib}
    assert not [name for name in names if name.startswith("on") or "href" in name]
    assert "url(" not in text and "@import" not in text


def test_a_name_from_a_bundle_is_text_and_nothing_else():
    name = "</title><script>alert(1)</script>\x00\x1b[31m&\u202e"
    root = ElementTree.fromstring(chart.chart(CELLS, name))
    assert not list(root.iter(f"{SVG}script"))
    assert root.findtext(f"{SVG}title") == "</title><script>alert(1)</script>\\x00\\x1b[31m&\\u202e"


def test_of_no_cells_there_is_an_empty_picture():
    assert ElementTree.fromstring(chart.chart((), "f")).findall(f"{SVG}g") == []


def test_the_picture_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "grid.svg"
    path.write_text("before")
    chart.write_chart(path, CELLS, "f")
    assert path.read_text(encoding="utf-8") == chart.chart(CELLS, "f")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("grid.png", "must end in .svg"),
        ("folder.svg", "there is a directory of that name"),
        ("nowhere/grid.svg", "there is no directory"),
    ],
)
def test_a_place_that_will_not_do_is_refused_by_name(place, reason, tmp_path):
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(UsageError, match=f"--svg .*{Path(place).name}.*{reason}"):
        chart.write_chart(tmp_path / place, CELLS, "f")
    assert [one.name for one in tmp_path.rglob("*")] == ["folder.svg"]


# --- the command's options


def asked(*words):
    found = {}

    @click.command()
    @with_grid
    def command(**options):
        check_picture(options["svg"])
        found.update(options)
        write_picture(options["svg"], CELLS, "f")

    return CliRunner().invoke(command, words, standalone_mode=False), found


def test_the_options_of_the_command_are_those_of_the_function():
    assert asked()[1] == {"limits": LIMITS, "accumulated_limits": (), "svg": None}
    assert asked("--limits", "8, 2,8", "--accumulated-limits", "64")[1] == {
        "limits": (2, 8),
        "accumulated_limits": (64,),
        "svg": None,
    }


@pytest.mark.parametrize(
    ("words", "why"),
    [("0", "at least 1"), ("two", "at least 1"), ("4,-1", "at least 1"), ("", "names nothing")],
)
def test_a_word_that_is_no_limit_is_refused(words, why):
    assert why in str(asked("--limits", words)[0].exception)


def test_the_command_draws_the_picture_and_refuses_a_place_before_anything_is_done(tmp_path):
    assert asked("--svg", str(tmp_path / "a.svg"))[0].exception is None
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == chart.chart(CELLS, "f")
    result, found = asked("--svg", str(tmp_path))
    assert isinstance(result.exception, UsageError)
    assert found == {}
