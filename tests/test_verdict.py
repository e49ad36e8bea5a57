from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from gold import assert_gold
from specimens import DIFFERENT, ERROR, MISSING, PASSED, REPRODUCED

from replay.recording import Difference, Drift, Missing
from replay.recording.comparison import Comparison
from replay.report.plain import outcome_json
from replay.report.verdict import draw_verdict, summarise_drift


@pytest.fixture(autouse=True)
def _plain_pipe(monkeypatch):
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def draw(outcome, verbose=0):
    stream = io.StringIO()
    draw_verdict(outcome, stream, verbose=verbose)
    return stream.getvalue()


@pytest.mark.parametrize("outcome", [REPRODUCED, PASSED, DIFFERENT, MISSING], ids=lambda o: o.status)
def test_a_verdict_looks_as_the_gold_file(outcome):
    assert_gold(f"verdict_{outcome.status}.txt", draw(outcome))


def test_a_verbose_verdict_lists_frames_drift_and_the_traceback():
    assert_gold("verdict_verbose.txt", draw(REPRODUCED, verbose=2))


WRONG = replace(
    DIFFERENT,
    error=replace(
        ERROR, stage="accuracy", type="torch._dynamo.debug_utils.AccuracyError", message="it differs"
    ),
    difference=Difference(
        where="output['loss']",
        index=(1, 2),
        compiled=1.25,
        uncompiled=0.25,
        reference=0.2500001,
        error=0.5,
        baseline=1e-08,
        tolerance=0.001,
        place=("/home/ann/nets/model.py", 14, "forward"),
    ),
    comparison=Comparison(outputs=1, gradients=2, largest_error=0.5, tolerance=0.001, where="output['loss']"),
)


def test_wrong_numbers_stand_in_a_table_as_the_gold_file_has_it():
    assert_gold("verdict_difference.txt", draw(WRONG))


def test_what_is_no_matter_of_numbers_is_shown_in_words():
    comparison = replace(WRONG.comparison, unlike=("a list of 2", "a tuple of 2\x1b[2J"))
    text = draw(replace(WRONG, comparison=comparison))
    assert "compiled     a list of 2" in text
    assert "\x1b" not in text
    assert "baseline" not in text


def test_a_quiet_verdict_is_one_line():
    assert draw(DIFFERENT, verbose=-1) == "different: Block.forward under inductor, stage backend\n"


def test_the_error_of_a_reproduced_failure_is_shown_whole_as_python_prints_it():
    assert f"\n{ERROR.type}: {ERROR.message}".rstrip() in draw(REPRODUCED)


def test_a_different_failure_with_the_same_text_says_why_it_is_different():
    outcome = replace(DIFFERENT, error=replace(ERROR, fingerprint="0"))
    assert "the failures differ in their fingerprints" in draw(outcome)


def test_what_is_missing_but_was_not_needed_is_told_apart():
    lack = Missing("globals.log", "file", "an open file cannot travel")
    assert "not loaded, and not needed: globals.log" in draw(replace(PASSED, missing=(lack,)))


def test_terminal_escapes_of_a_bundle_come_out_escaped():
    text = draw(replace(REPRODUCED, function="f\x1b[2J\n", error=replace(ERROR, message="\x1b]0;x\x07")))
    assert "\x1b" not in text
    assert "f\\x1b[2J\\n under" in text


def test_drift_is_summarised_by_number_and_first_names():
    drift = tuple(Drift(f"d{number}", "1", "2") for number in range(6))
    expected = "6 things differ from the recording: d0, d1, d2, d3 and 2 more (-v lists them)"
    assert summarise_drift(drift) == expected
    assert summarise_drift(drift[:1]).startswith("1 thing differs from the recording: d0 ")


def test_the_json_of_an_outcome_has_the_keys_of_the_contract():
    found = json.loads(outcome_json(DIFFERENT))
    wanted = {"bundle", "status", "backend", "function", "error", "recorded_error", "frames", "seconds"}
    assert wanted | {"drift", "missing"} <= set(found)
    assert set(found["error"]) >= {"type", "message", "stage", "fingerprint", "user_frames"}
    assert set(found["recorded_error"]["user_frames"][0]) == {"file", "line", "function", "code"}
    assert set(found["frames"][0]) >= {"function", "file", "line", "compiles", "graph_breaks", "seconds"}
    assert set(found["seconds"]) == {"load", "compile", "run", "total"}
    assert json.loads(outcome_json(PASSED))["error"] is None
