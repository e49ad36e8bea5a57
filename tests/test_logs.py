"""`--logs`: what torch can log, what a wrong spec says, where the lines go."""

from __future__ import annotations

import json
import logging
import os

import pytest
import torch
from processes import ROOT
from programs import here, python

import replay
from replay.cli import main
from replay.errors import UsageError
from replay.torch_adapter import logs

BUNDLE = ROOT / "recordings" / "graph_break_in_a_callee.rec"


def test_every_name_that_is_listed_is_taken():
    found = logs.available()
    assert {"dynamo", "inductor", "graph_breaks", "guards", "output_code"} <= {one.name for one in found}
    for one in found:
        logs.check(one.name)
        logs.check(f"+{one.name}")
    assert logs.check("all,-dynamo , torch.fx") == "all,-dynamo,torch.fx"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("graph_brekas", "did you mean graph_breaks"),
        ("+dynamo,inductr", "--logs 'inductr': torch has no log of that name; did you mean inductor"),
        ("dynamo,", "--logs '': torch has no log of that name; --logs help lists them"),
        ("++dynamo", "torch has no log of that name"),
        ("torch.no_such_module", "torch has no log of that name"),
        ("xyzzy", "--logs help lists them"),
        ("x\ny", "torch has no log"),
    ],
)
def test_a_wrong_name_is_one_whole_line(spec, words):
    with pytest.raises(UsageError) as caught:
        logs.check(spec)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_logs_are_on_inside_and_as_before_afterwards():
    dynamo = logging.getLogger("torch._dynamo")
    torch._logging.set_logs(inductor=logging.ERROR)
    try:
        before = (dynamo.level, logging.getLogger("torch._inductor").level, os.environ.get("TORCH_LOGS"))
        with logs.shown("+dynamo,inductor"):
            assert dynamo.level == logging.DEBUG
            assert logging.getLogger("torch._inductor").level == logging.INFO
            assert os.environ["TORCH_LOGS"] == "+dynamo,inductor"
        after = (dynamo.level, logging.getLogger("torch._inductor").level, os.environ.get("TORCH_LOGS"))
        assert before == after == (logging.NOTSET, logging.ERROR, None)
    finally:
        torch._logging.set_logs()


def test_a_replay_in_this_process_logs_to_stderr(capfd):
    assert here(BUNDLE, logs="graph_breaks").status == "reproduced"
    shown = capfd.readouterr()
    assert "[__graph_breaks]" in shown.err
    assert shown.out == "rows: 3\n"  # the program's own
    assert here(BUNDLE).status == "reproduced"
    assert "[__graph_breaks]" not in capfd.readouterr().err


def test_logs_of_a_child_go_to_stderr_and_json_stays_whole(tmp_path):
    words = ["--logs", "graph_breaks", "--logs", "+bytecode,dynamic", "--json"]
    done = python("-m", "replay", BUNDLE, *words, cwd=tmp_path, TORCH_LOGS="no such spec")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["status"] == "reproduced"
    assert "[__graph_breaks]" in done.stderr
    assert "[__bytecode]" in done.stderr


def test_a_wrong_spec_of_the_variable_itself_is_told_too(tmp_path):
    done = python("-m", "replay", BUNDLE, "-q", cwd=tmp_path, TORCH_LOGS="nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "replay: error: TORCH_LOGS=nonsense: torch refuses it and cannot be imported; unset it, or see --logs help\n"
    )


@pytest.mark.parametrize("spec", ["help", "+help"])
def test_help_lists_the_names_without_a_bundle(spec, capsys):
    assert main(["--logs", spec]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert any(line.startswith("  dynamo ") for line in lines)
    assert any(line.startswith("  graph_breaks ") for line in lines)
    assert any(line.startswith("  graph_region_expansion ") for line in lines) == (spec == "+help")
    assert max(map(len, lines)) <= 80
    assert shown.err == ""


def test_a_wrong_spec_is_a_usage_error_of_a_replay():
    with pytest.raises(UsageError, match="--logs 'nonsense'"):
        replay.run(BUNDLE, logs="nonsense", isolate=False)
