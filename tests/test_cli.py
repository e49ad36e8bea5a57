from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from bundles import write_bundle
from click.testing import CliRunner
from specimens import DIFFERENT, MISSING, PASSED, REPRODUCED, StandIn

import replay.bundle
from replay.cli import exits, main, progress
from replay.cli.application import application
from replay.cli.values import read_literal
from replay.errors import BundleError, FormatVersionError, MissingError, UnsupportedTorchError, UsageError

ROOT = Path(__file__).parent.parent

DEFAULTS = {
    "backend": None,
    "function": (),
    "recompile_limit": None,
    "accumulated_recompile_limit": None,
    "dynamic": None,
    "fullgraph": None,
    "backward": None,
    "mode": None,
    "config": {},
    "env": {},
    "without": (),
    "device": None,
    "fake": False,
    "compare": False,
    "tolerance": None,
    "logs": None,
    "artifacts": None,
    "timeout": 1800.0,
    "pdb": False,
    "isolate": True,
    "verbose": 0,
    "trust": None,
    "sandbox": None,
}


class Replayer:
    """Stands in for `replay.replayer`: remembers how `run` was called, answers as told."""

    def __init__(self):
        self.outcome = REPRODUCED
        self.error = None
        self.calls = []

    def run(self, bundle, **options):
        self.calls.append((bundle, options))
        print("the replayed code prints", flush=True)
        if self.error is not None:
            raise self.error
        return self.outcome


@pytest.fixture
def replayer(monkeypatch, tmp_path):
    stand_in = Replayer()
    monkeypatch.setitem(sys.modules, "replay.replayer", stand_in)
    monkeypatch.setattr(replay.bundle, "load", lambda path: StandIn(path=str(path)))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.rec").write_bytes(b"")
    (tmp_path / "forward_Error.rec.zip").write_bytes(b"")
    return stand_in


def invoke(*words):
    try:
        runner = CliRunner(mix_stderr=False)  # click < 8.2, which else has one stream for both
    except TypeError:
        runner = CliRunner()
    return runner.invoke(application, list(words))


# --- the default verb


def test_a_bundle_alone_is_replayed_as_recorded(replayer):
    result = invoke("x.rec")
    assert result.exit_code == 1
    [(bundle, options)] = replayer.calls
    assert bundle.path == "x.rec"
    assert options == DEFAULTS


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--backend", "eager"], {"backend": "eager"}),
        (["--function", "f", "--function", "B.*"], {"function": ("f", "B.*")}),
        (["--recompile-limit", "2"], {"recompile_limit": 2}),
        (["--accumulated-recompile-limit", "9"], {"accumulated_recompile_limit": 9}),
        (["--dynamic"], {"dynamic": True}),
        (["--no-dynamic"], {"dynamic": False}),
        (["--fullgraph"], {"fullgraph": True}),
        (["--no-fullgraph"], {"fullgraph": False}),
        (["--backward"], {"backward": True}),
        (["--no-backward"], {"backward": False}),
        (["--mode", "max-autotune"], {"mode": "max-autotune"}),
        (
            ["--config", "dynamo.suppress_errors=true", "--config", "inductor.x=[1, 'a']"],
            {"config": {"dynamo.suppress_errors": True, "inductor.x": [1, "a"]}},
        ),
        (["--env", "A=1=2", "--env", "B="], {"env": {"A": "1=2", "B": ""}}),
        (["--logs", "+dynamo"], {"logs": "+dynamo"}),
        (["--artifacts", "out"], {"artifacts": "out"}),
        (["--logs", "+dynamo", "--logs", "guards,aot"], {"logs": "+dynamo,guards,aot"}),
        (["--without", "calls,env.A", "--without", "backward"], {"without": ("calls", "env.A", "backward")}),
        (["--timeout", "0"], {"timeout": 0.0}),
        (["--pdb"], {"pdb": True, "isolate": False}),
        (["--trust"], {"trust": True}),
        (["--no-sandbox"], {"sandbox": False}),
        (["--no-isolate"], {"isolate": False}),
        (["--isolate"], {}),
        (["-vv"], {"verbose": 2}),
        (["-q"], {}),
    ],
)
def test_each_option_reaches_the_replayer_before_or_after_the_bundle(replayer, words, expected):
    for line in (["x.rec", *words], [*words, "x.rec"], ["replay", *words, "x.rec"]):
        result = invoke(*line)
        assert result.exit_code == 1, result.output
        assert replayer.calls[-1][1] == {**DEFAULTS, **expected}


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(PASSED, 0), (REPRODUCED, 1), (DIFFERENT, 3), (MISSING, 125)],
    ids=lambda value: getattr(value, "status", value),
)
def test_each_status_has_its_exit_code(replayer, outcome, code):
    replayer.outcome = outcome
    result = invoke("x.rec")
    assert result.exit_code == code
    assert result.stdout.startswith(outcome.status + ": ")


def test_what_the_replayed_code_prints_is_no_result(replayer):
    result = invoke("x.rec", "--json")
    assert json.loads(result.stdout)["status"] == "reproduced"
    assert "the replayed code prints" in result.stderr


def test_quiet_is_one_line(replayer):
    assert invoke("x.rec", "-q").stdout == "reproduced: Block.forward under inductor, stage dynamo\n"


# --- bad input: a message that says what to do, exit code 2, no traceback


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nope.rec"], "no such file: 'nope.rec'; bundles there: forward_Error.rec.zip, x.rec"),
        (["forwrad_Error.rec"], "did you mean 'forward_Error.rec.zip'?"),
        (["x"], "no such file: 'x'; did you mean 'x.rec'?"),
        (["."], "'.' is a directory; name one bundle in it; bundles there: forward"),
        (["inspct", "x.rec"], "no such verb or file: 'inspct'; did you mean 'inspect'?"),
        (["recrod"], "did you mean 'record'?"),
        (["x.rec", "--bakend", "eager"], "--backend"),
        (["x.rec", "y.rec"], "unexpected extra argument"),
        (["x.rec", "--recompile-limit", "many"], "--recompile-limit: 'many' is not a whole number of at"),
        (["x.rec", "--recompile-limit", "0"], "'0' is not a whole number of at least 1"),
        (["x.rec", "--timeout", "soon"], "--timeout: 'soon' is not a number of seconds"),
        (["x.rec", "--timeout", "-1"], "'-1' is not a number of seconds"),
        (["x.rec", "--timeout", "nan"], "'nan' is not a number of seconds"),
        (["x.rec", "--config", "suppress"], "--config: 'suppress' is not KEY=VALUE"),
        (["x.rec", "--env", "=1"], "--env: '=1' is not KEY=VALUE"),
        (["x.rec", "--pdb", "--isolate"], "--pdb needs the replay in this process"),
        (["x.rec", "-q", "-v"], "-q and -v contradict each other"),
        (["inspect"], "Missing argument 'BUNDLE'"),
        (["inspect", "nope.rec"], "no such file"),
        (["record"], "name the script to run"),
        (["record", "nope.py"], "no such script: 'nope.py'"),
        (["record", "-m", "no_such_module_x"], "no module named 'no_such_module_x'"),
        (["record", "--on", "sunday", "x.py"], "--on: 'sunday' is not one of"),
        (["record", "--max-bundles", "0", "x.py"], "'0' is not a whole number"),
        (["record", "--nonsense", "x.py"], "--nonsense"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_a_users_mistake_is_a_short_message_and_exit_code_2(replayer, words, message):
    result = invoke(*words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("replay: error: ")
    assert len(result.stderr.splitlines()) <= 2
    assert result.stdout == ""
    assert replayer.calls == []


def test_no_arguments_print_the_help_to_stderr():
    result = invoke()
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage:" in result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BundleError("x.rec: is empty"), 2),
        (FormatVersionError("x.rec: is newer"), 2),
        (UsageError("--backend: unknown"), 2),
        (UnsupportedTorchError("no hook"), 2),
        (MissingError("numpy is not installed"), 125),
    ],
)
def test_each_error_of_ours_is_a_message_and_its_exit_code(replayer, error, code):
    replayer.error = error
    result = invoke("x.rec")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.endswith(f"replay: error: {error}\n")


def test_an_interrupt_is_130(replayer):
    replayer.error = KeyboardInterrupt()
    result = invoke("x.rec")
    assert result.exit_code == 130
    assert "replay: interrupted" in result.stderr


def test_a_bug_of_ours_shows_its_traceback_and_asks_for_a_report(replayer):
    replayer.error = ZeroDivisionError("ours")
    result = invoke("x.rec")
    assert result.exit_code == exits.BUG
    assert "ZeroDivisionError: ours" in result.stderr
    assert result.stderr.endswith("please report it with the lines above\n")


def test_a_message_cannot_carry_terminal_escapes(replayer):
    replayer.error = BundleError("x\x1b[2J.rec: no")
    assert "\x1b" not in invoke("x.rec").stderr


def test_a_reader_that_goes_away_changes_no_exit_code(replayer, monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    closed = []
    monkeypatch.setattr(exits, "close_stdout", lambda: closed.append(True))
    monkeypatch.setattr(sys, "stdout", Gone())
    assert exits.run_to_exit_code(lambda: exits.emit("x") or 3) == 3
    assert closed == [True]
    monkeypatch.undo()


def test_help_and_version():
    assert invoke("--help").exit_code == 0
    assert "inspect" in invoke("-h").stdout
    assert invoke("--version").stdout == "torch-replay 0.1.0\n"
    for verb in ("replay", "record", "inspect"):
        result = invoke(verb, "--help")
        assert result.exit_code == 0
        assert max(len(line) for line in result.stdout.splitlines()) <= 80


def test_main_returns_the_exit_code(replayer, capsys):
    assert main(["x.rec"]) == 1
    assert capsys.readouterr().out.startswith("reproduced")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("NONE", None),
        ("3", 3),
        ("1e-3", 0.001),
        ("'true'", "true"),
        ("{'a': (1,)}", {"a": (1,)}),
        ("max-autotune", "max-autotune"),
        ("", ""),
        ("(" * 500, "(" * 500),
        ("__import__('os')", "__import__('os')"),
    ],
)
def test_a_config_value_is_a_literal_or_itself(text, value):
    assert read_literal(text) == value


# --- progress


def test_progress_shows_on_a_terminal_after_a_while_and_is_wiped(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.shown("compiling f\x1b under eager"):
        while "0 s" not in terminal.getvalue():
            pass
    monkeypatch.undo()
    assert "compiling f\\x1b under eager ... 0 s" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_progress_asks_again_what_is_going_on(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal, words = Terminal(), iter(["trial 1", "trial 2"])
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "PERIOD", 0.01)
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.shown(lambda: next(words, "trial 3")):
        while "trial 3" not in terminal.getvalue():
            pass
    monkeypatch.undo()
    assert "trial 1 ... 0 s" in terminal.getvalue()


def test_progress_is_silent_in_a_pipe(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", pipe)
    with progress.shown("x"):
        pass
    monkeypatch.undo()
    assert pipe.getvalue() == ""


# --- inspect


def test_inspect_shows_a_bundle_that_was_written(tmp_path):
    path = write_bundle(tmp_path)
    result = invoke("inspect", str(path))
    assert result.exit_code == 0, result.output
    assert ">     2 |     return x.relu()  # größer als 0\n" in result.stdout
    assert f"python -m replay {path}" in result.stdout


def test_inspect_json_is_one_object(tmp_path):
    path = write_bundle(tmp_path)
    found = json.loads(invoke("inspect", "--json", str(path)).stdout)
    assert found["bundle"] == str(path)
    assert found["size"] == path.stat().st_size
    assert found["frame"]["function"] == "forward"


def test_inspect_of_what_is_no_bundle_is_a_message(tmp_path):
    (tmp_path / "x.rec").write_text("hello")
    result = invoke("inspect", str(tmp_path / "x.rec"))
    assert result.exit_code == 2
    assert result.stderr.startswith("replay: error: ")
    assert "Traceback" not in result.stderr


# --- record


@pytest.fixture
def recorder(monkeypatch, tmp_path):
    seen = SimpleNamespace(calls=[], errors=[], bundles=[], refuse=None, lost=0)

    @contextmanager
    def record(*positional, **options):
        seen.calls.append((positional, options))
        if seen.refuse is not None:
            raise seen.refuse
        try:
            yield seen
        except BaseException as error:
            seen.errors.append(error)
            seen.bundles.append(Path("out dir/a.rec"))
            raise

    monkeypatch.setitem(sys.modules, "replay.recorder", SimpleNamespace(record=record))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.py").write_text("import sys\nprint(sys.argv)\nexec(sys.argv[1])\n")
    return seen


def test_record_passes_its_options_and_leaves_the_scripts_alone(recorder):
    result = invoke(
        *["record", "-o", "d", "--on", "recompile", "--on", "all", "--only", "f", "--only", "g"],
        *["--tensors", "full", "--ship", "a", "--max-bundles", "3", "--tolerance", "0.01"],
        *["p.py", "pass", "-o", "--", "--help", "-m"],
    )
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "['p.py', 'pass', '-o', '--', '--help', '-m']\n"
    assert recorder.calls == [
        (
            ("d",),
            {
                "on": ("recompile", "all"),
                "only": ("f", "g"),
                "tensors": "full",
                "ship": ("a",),
                "max_bundles": 3,
                "calls": False,
                "crash_safe": False,
                "tolerance": 0.01,
            },
        )
    ]
    assert result.stderr == "replay: nothing was recorded\n"


def test_record_defaults_are_the_contracts(recorder):
    invoke("record", "p.py", "pass")
    expected = {"on": ("failure",), "only": None, "tensors": "auto", "ship": (), "max_bundles": 16}
    expected.update(tolerance=None, calls=False, crash_safe=False)
    assert recorder.calls == [(("recordings",), expected)]


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "p", "pass", "--on", "x"],
        ["-mp", "pass", "--on", "x"],
        ["--only", "-m", "-m", "p", "pass", "--on", "x"],
        ["--", "p.py", "pass", "--on", "x"],
    ],
)
def test_what_follows_the_program_belongs_to_it(recorder, words):
    result = invoke("record", *words)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith("p.py', 'pass', '--on', 'x']\n")


def test_a_module_keeps_its_double_dash(recorder):
    assert invoke("record", "-m", "p", "pass", "--", "-x").stdout.endswith("'pass', '--', '-x']\n")


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        ("pass", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('bye')", 1, "bye\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("from replay.errors import UsageError; raise UsageError('the own')", 1, "UsageError: the own\n"),
    ],
)
def test_the_scripts_exit_code_and_error_are_kept(recorder, text, code, error):
    result = invoke("record", "p.py", text)
    assert result.exit_code == code
    assert error in result.stderr
    assert "replay/cli" not in result.stderr
    assert "script.py" not in result.stderr


def test_the_bundles_are_listed_with_the_command_that_replays_each(recorder):
    result = invoke("record", "p.py", "1 / 0")
    expected = "replay: recorded 1 failure; to replay:\n  python -m replay 'out dir/a.rec'\n"
    assert result.stderr.endswith(expected)
    assert [type(error) for error in recorder.errors] == [ZeroDivisionError]


def test_a_recorder_that_refuses_runs_nothing(recorder):
    recorder.refuse = UnsupportedTorchError("no hook in this torch")
    result = invoke("record", "p.py", "pass")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "replay: error: no hook in this torch\n"


# --- each verb once as a process


def run(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "replay", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def test_inspect_as_a_process_imports_no_torch_and_survives_an_ascii_terminal(tmp_path):
    path = write_bundle(tmp_path)
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPROFILEIMPORTTIME": "1"}
    result = run("inspect", str(path), env=environment)
    assert result.returncode == 0, result.stderr
    assert "gr\\xf6\\xdfer" in result.stdout
    modules = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "rich.console" in modules
    assert not {"torch", "pygments", "numpy"} & modules


def test_an_unreadable_file_as_a_process(tmp_path):
    (tmp_path / "x.rec").write_bytes(b"")
    result = run(str(tmp_path / "x.rec"), "--backend", "eager")
    assert result.returncode == 2
    assert result.stderr.startswith("replay: error: ")
    assert result.stdout == ""


def test_record_as_a_process_keeps_output_and_exit_code(tmp_path):
    program = tmp_path / "p.py"
    program.write_text("import sys\nprint(sys.argv[1:], __name__)\nsys.exit(5)\n")
    result = run("record", "-o", str(tmp_path / "out"), str(program), "-x")
    assert result.returncode == 5, result.stderr
    assert result.stdout == "['-x'] __main__\n"
    assert result.stderr.endswith("replay: no failure was recorded\n")
    assert not (tmp_path / "out").exists()


def test_a_pipe_that_closes_early_is_no_traceback(tmp_path):
    path = write_bundle(tmp_path)
    command = f'"{sys.executable}" -m replay inspect --json "{path}" | head -c 1'
    result = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stderr == ""


def test_lost_failures_are_counted_in_the_last_line(recorder):
    recorder.lost = 2
    assert "2 failures could not be recorded" in invoke("record", "p.py", "pass").stderr


def test_an_output_that_is_no_directory_is_refused_before_the_program_runs(recorder, tmp_path):
    (tmp_path / "taken").write_text("")
    result = invoke("record", "-o", "taken", "p.py", "pass")
    assert result.exit_code == 2 and "taken" in result.stderr and not recorder.calls


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("target", "code"), [("/dev/full", 2), ("pipe", 0)])
def test_standard_output_that_refuses_is_no_verdict_and_no_traceback(target, code):
    bundle = next((Path(__file__).parent.parent / "recordings").glob("*.rec"))
    command = f"{sys.executable} -m replay inspect {bundle} "
    command += "> /dev/full" if target != "pipe" else "| true; exit ${PIPESTATUS[0]}"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("terminal", "shown"), [(True, "x = 1\n# \\x1b]0;title\n"), (False, "x = 1\n# \x1b]0;title\n")]
)
def test_a_files_text_reaches_no_terminal_with_escapes(terminal, shown, monkeypatch):
    class Stream(io.StringIO):
        def isatty(self):
            return terminal

    monkeypatch.setattr(sys, "stdout", Stream())
    exits.write_text("x = 1\n# \x1b]0;title\n")
    assert sys.stdout.getvalue() == shown
