"""`--pdb`: where it stops, what it shows, and that the verdict follows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from processes import ROOT, run_at_terminal
from programs import recorded

from replay.recording import ErrorInfo, UserFrame
from replay.replayer import debugger

RECORDINGS = ROOT / "recordings"
PROMPT = "(Pdb) "

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX's")


def at_terminal(directory, bundle, *options, words):
    return run_at_terminal(
        directory, ["-m", "replay", str(RECORDINGS / bundle), "--pdb", *options], PROMPT, words
    )


def test_a_run_time_error_stops_at_the_line_of_the_program_whose_file_is_gone(tmp_path):
    code, shown = at_terminal(
        tmp_path, "run_time_index.rec", "--backend", "uncompiled", words=["p rows + 1", "where", "list", "q"]
    )
    assert code == 3, shown  # it fails otherwise than recorded: not in compiled code
    assert "run_time_index.py(8)pick()\n-> return table[rows + 1] * 2\n(Pdb) p rows + 1\ntensor([" in shown
    assert "  8  ->\t    return table[rows + 1] * 2" in shown
    assert shown.rstrip().splitlines()[-1].startswith("load ")
    assert "different: pick under uncompiled, stage runtime" in shown
    assert "\nTraceback" not in shown
    assert not Path("/tmp/replay-recordings/run_time_index").exists()


def test_an_error_of_the_compiler_stops_where_torch_raised_and_names_the_programs_line(tmp_path):
    code, shown = at_terminal(tmp_path, "dynamo_shape_mismatch.rec", words=["up", "q"])
    assert code == 1, shown
    assert "replay: the program's line, which was being compiled: " in shown
    assert "dynamo_shape_mismatch.py:" in shown.partition(PROMPT)[0]
    assert "replay: stopped where it was raised" in shown
    stop = shown.partition(PROMPT)[0].splitlines()[-2]
    assert stop.startswith("> ") and "/torch/" in stop
    assert "reproduced: attention under aot_eager, stage dynamo" in shown
    assert "\nTraceback" not in shown


@pytest.mark.parametrize("typed", ["q\n", "", "run\n"], ids=["quit", "end of input", "run"])
def test_in_a_pipe_the_result_alone_is_on_stdout(typed, tmp_path, capfd, monkeypatch):
    reader = (tmp_path / "typed").open("w+")
    reader.write(typed)
    reader.seek(0)
    monkeypatch.setattr(sys, "stdin", reader)
    from replay.cli import main

    assert main([str(RECORDINGS / "run_time_index.rec"), "--pdb", "--json"]) == 1
    shown = capfd.readouterr()
    assert json.loads(shown.out)["status"] == "reproduced"
    assert "run_time_index.py(6)pick()" in shown.err
    assert "--backend uncompiled stops at the line" in shown.err
    assert "Traceback" not in shown.err
    reader.close()


def test_without_a_standard_input_it_is_a_usage_error(monkeypatch, capsys):
    from replay.cli import main

    monkeypatch.setattr(sys, "stdin", None)
    assert main([str(RECORDINGS / "run_time_index.rec"), "--pdb"]) == 2
    assert "--pdb reads its commands from standard input, and there is none" in capsys.readouterr().err


def test_the_innermost_frame_of_the_program_is_the_place_also_under_frames_of_a_library():
    def program(path):
        return json.loads(path)

    try:
        program("{")
    except ValueError as error:
        at, code = debugger.failing_place(error.__traceback__)
    assert (at, code.co_name) == (1, "program")


def test_without_a_frame_of_the_program_the_place_is_the_innermost():
    try:
        json.loads("{")
    except ValueError as error:
        trace = error.__traceback__.tb_next
    at, code = debugger.failing_place(trace)
    assert (at, code) == (2, None)


def test_what_is_said_before_the_debugger_cannot_steer_a_terminal(capsys):
    error = ErrorInfo("E", "\x1b[2J", "dynamo", "a-b", (UserFrame("x\x1b.py", 3, "f", "y\x07"),))
    for line in debugger._introduction(error, None):
        debugger._say(line)
    said = capsys.readouterr().err
    assert said.startswith("replay: E: \\x1b[2J\n")
    assert "x\\x1b.py:3 in f\nreplay:     y\\x07\n" in said


def test_wrong_numbers_raise_nothing_and_so_there_is_nowhere_to_stop(tmp_path, capsys):
    from replay.cli import main

    (bundle,) = recorded(
        tmp_path, lambda: torch.compile(lambda x: x * 2, backend=off_by_one)(torch.ones(3)), on="accuracy"
    ).bundles
    assert main([str(bundle), "--pdb"]) == 1
    assert "note: --pdb: nothing was raised, so there is nowhere to stop" in capsys.readouterr().out


def off_by_one(gm, example_inputs):
    return lambda *inputs: tuple(one + 1 for one in gm.forward(*inputs))
