"""Triage: the verdict over made-up rungs, the report, the command; real replays that hang, grow or are not there."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from gold import assert_gold
from programs import ROOT, python, recorded
from specimens import MANIFEST

import replay
from replay.cli import progress
from replay.cli import triage as command
from replay.cli.application import application
from replay.diagnosis import bisection, ladder, likeness, sentences, verdict
from replay.diagnosis.course import Progress
from replay.findings.triage import Bisected, Rung, Triage
from replay.recording import (
    CompileInfo,
    Difference,
    Drift,
    ErrorInfo,
    Missing,
    Outcome,
    TensorSpec,
    UserFrame,
)
from replay.replayer import session
from replay.replayer.bisecting import Bisection
from replay.report.plain import triage_json
from replay.report.triage import draw_triage

STANDARD = ladder.STANDARD
LINE = UserFrame("/home/ann/model.py", 7, "forward", "return x @ weight")
ELSEWHERE = UserFrame("/home/ann/model.py", 9, "forward", "return table[rows]")
DYNAMO = "torch._dynamo.exc."
CUDA = Missing("a CUDA device", "", "there is none here")


def error(kind="RuntimeError", stage="runtime", place=LINE, message="it does not fit", **more):
    return ErrorInfo(kind, message, stage, f"{stage}{kind}-1", (place,) if place else (), **more)


FAKE = error(DYNAMO + "TorchRuntimeError", "dynamo", message="RuntimeError when making fake tensor call\n  x")
UNSUPPORTED = error(DYNAMO + "Unsupported", "dynamo", gb_type="Data-dependent branching")
LOWERING = error("torch._inductor.exc.InductorError", "inductor", inner_type="RuntimeError")


def recording(failure, *, backend="inductor", event="failure", entry="compile", kind="registered", **more):
    compiled = CompileInfo(backend, kind, entry=entry)
    return replace(MANIFEST, event=event, error=failure, compile=compiled, storages={}, tensors={}, **more)


def rungs(failing=(), *, as_error=None, status="reproduced", **others):
    """The standard ladder: `failing` rungs have the error, the others pass, or are as `others` say."""
    made = []
    for name in STANDARD:
        if name in others:
            made.append(others.pop(name))
        elif name in failing:
            made.append(Rung(name, status, error=as_error, options={"backend": name}))
        else:
            made.append(Rung(name, "passed", options={"backend": name}))
    return [*made, *others.values()]


def up_from(name):
    return STANDARD[STANDARD.index(name) :]


def decided(manifest, climbed, found=None):
    decision = verdict.decide(manifest, climbed, found)
    return decision.fault, sentences.sentence(manifest, decision, found)


def noted(manifest, climbed):
    return list(sentences.notes(manifest, verdict.decide(manifest, climbed), climbed, None))


# --- the verdict, over made-up rungs


@pytest.mark.parametrize(
    ("lowest", "failure", "fault"),
    [
        ("eager", UNSUPPORTED, "dynamo"),
        ("eager", error(stage="runtime"), "dynamo"),
        ("aot_eager", error(stage="aot_autograd"), "aot_autograd"),
        ("aot_eager_decomp_partition", error(stage="aot_autograd"), "decompositions"),
        ("inductor", LOWERING, "inductor"),
        (
            "inductor",
            error(stage="inductor", message="x\n  target: aten.where.self\nLoweringException"),
            "inductor_lowering",
        ),
        ("inductor", replace(LOWERING, inner_type="torch._inductor.exc.CppCompileError"), "cpp_compiler"),
        (
            "inductor",
            replace(LOWERING, inner_type="triton.compiler.errors.CompilationError"),
            "triton_compiler",
        ),
        ("inductor", replace(LOWERING, raised_in="triton/compiler/compiler.py:make_ir"), "triton_compiler"),
        ("eager", error(stage="recompile_limit"), "recompile_limit"),
        ("eager", error(stage="graph_break"), "graph_break"),
        ("inductor", error(stage="accuracy"), "numerics"),
    ],
)
def test_the_lowest_rung_that_fails_names_the_fault(lowest, failure, fault):
    climbed = rungs(up_from(lowest), as_error=failure)
    assert decided(recording(failure), climbed)[0] == fault


def test_code_that_fails_uncompiled_at_the_same_line_is_the_users_whatever_the_stage():
    plain = Rung("uncompiled", "different", error=error())
    climbed = rungs(up_from("eager"), as_error=FAKE, uncompiled=plain)
    fault, text = decided(recording(FAKE), climbed)
    assert fault == "user_code"
    assert text == "fails without torch.compile as well: look at your own code, /home/ann/model.py:7"


def test_another_type_at_the_line_of_a_fake_operation_is_the_same_failure_and_said_to_be_another():
    plain = Rung("uncompiled", "different", error=error("IndexError"))
    fault, text = decided(recording(FAKE), rungs(up_from("eager"), as_error=FAKE, uncompiled=plain))
    assert fault == "user_code"
    assert "its error is another one: IndexError; recorded: RuntimeError" in text


def test_uncompiled_code_that_fails_elsewhere_does_not_excuse_the_compiler():
    plain = Rung("uncompiled", "different", error=error("IndexError", place=ELSEWHERE))
    climbed = rungs(["inductor"], as_error=LOWERING, uncompiled=plain)
    assert decided(recording(LOWERING), climbed)[0] == "inductor"
    assert "uncompiled code fails as well, otherwise: IndexError in /home/ann/model.py:9" in noted(
        recording(LOWERING), climbed
    )


def test_running_code_that_fails_uncompiled_too_is_the_users_in_whatever_words_inductor_says_it():
    kernel = error("RuntimeError", message="kernel: index out of bounds", place=None)
    plain = Rung("uncompiled", "different", error=error("IndexError", place=ELSEWHERE))
    assert (
        decided(recording(kernel), rungs(["inductor"], as_error=kernel, uncompiled=plain))[0] == "user_code"
    )


def test_a_different_status_is_the_recorded_failure_where_it_is_the_same_underneath():
    wrapped = error("torch._dynamo.exc.BackendCompilerFailed", "aot_autograd", inner_type="ValueError")
    under = Rung("aot_eager", "different", error=replace(wrapped, stage="backend"))
    climbed = rungs(up_from("aot_eager_decomp_partition"), as_error=wrapped, aot_eager=under)
    assert decided(recording(wrapped), climbed)[0] == "aot_autograd"


def test_a_failure_that_is_not_the_recorded_one_is_said_to_be_another():
    climbed = rungs(["inductor"], as_error=LOWERING, status="different")
    fault, text = decided(recording(UNSUPPORTED), climbed)
    assert fault == "inductor"
    assert text.startswith("not the recorded failure, but another failure: Inductor: RuntimeError in ")


def test_a_missing_rung_decides_nothing_and_the_stage_does():
    lacking = Rung("aot_eager_decomp_partition", "missing", missing=(CUDA,))
    climbed = rungs(["inductor"], as_error=LOWERING, aot_eager_decomp_partition=lacking)
    assert decided(recording(LOWERING), climbed)[0] == "inductor"
    ran = error(stage="runtime")
    assert (
        decided(recording(ran), rungs(["inductor"], as_error=ran, aot_eager_decomp_partition=lacking))[0]
        == "unknown"
    )


def test_an_operation_that_fails_over_fakes_is_nobodys_until_uncompiled_code_was_tried():
    lacking = Rung("uncompiled", "missing", missing=(CUDA,))
    climbed = rungs(up_from("eager"), as_error=FAKE, uncompiled=lacking)
    fault, text = decided(recording(FAKE), climbed)
    assert fault == "unknown"
    assert text.endswith("uncompiled could not be tried here")
    assert (
        decided(recording(UNSUPPORTED), rungs(up_from("eager"), as_error=UNSUPPORTED, uncompiled=lacking))[0]
        == "dynamo"
    )


def test_a_missing_rung_that_shows_the_very_failure_counts():
    lacking = Rung("uncompiled", "missing", error=error(), missing=(CUDA,))
    assert (
        decided(recording(FAKE), rungs(up_from("eager"), as_error=FAKE, uncompiled=lacking))[0] == "user_code"
    )


def test_a_second_look_over_fakes_counts_only_where_it_shows_the_failure():
    lacking = Rung("uncompiled", "missing", missing=(CUDA,))
    same, other = (
        Rung("uncompiled", "different", "fake", error=one)
        for one in (error(), error("AssertionError", place=ELSEWHERE))
    )
    climbed = rungs(up_from("eager"), as_error=FAKE, uncompiled=lacking)
    fault, text = decided(recording(FAKE), [*climbed, same])
    assert (fault, "over fake tensors" in text) == ("user_code", True)
    assert decided(recording(FAKE), [*climbed, other])[0] == "unknown"


def test_a_backward_that_fails_uncompiled_excuses_aot_autograd():
    joint = error("torch._dynamo.exc.BackendCompilerFailed", "aot_autograd", inner_type="RuntimeError")
    second = Rung("uncompiled", "different", "backward", error=error())
    fault, text = decided(recording(joint), [*rungs(up_from("aot_eager"), as_error=joint), second])
    assert fault == "user_code"
    assert text.startswith("its backward fails without torch.compile as well: look at your own code, ")


@pytest.mark.parametrize("kind", ["Timeout", "OutOfMemory"])
def test_a_replay_that_we_stopped_proves_nothing(kind):
    ended = error(
        kind,
        "backend",
        place=None,
        message="the replaying process ended while it was in phase 'run': timeout, 9 s",
    )
    stopped = Rung("inductor", "different", error=ended)
    fault, text = decided(recording(LOWERING), rungs(inductor=stopped))
    assert fault == "unknown"
    assert "its process was ended: timeout, 9 s" in text


def test_a_crash_is_the_rungs():
    ended = error(
        "SIGSEGV",
        "backend",
        place=None,
        message="the replaying process ended while it was in phase 'compile': crashed, SIGSEGV",
    )
    climbed = rungs(inductor=Rung("inductor", "different", error=ended))
    fault, text = decided(recording(LOWERING), climbed)
    assert fault == "inductor"
    assert "crashed, SIGSEGV" in text
    assert not bisection.applies(verdict.decide(recording(LOWERING), climbed))


def test_a_backend_of_the_users_is_at_fault_where_eager_passes():
    refused = error(DYNAMO + "BackendCompilerFailed", "backend", inner_type="ValueError")
    own = Rung("__main__:picky", "reproduced", error=refused, options={"backend": None})
    manifest = recording(refused, backend="__main__:picky", kind="shipped")
    fault, text = decided(manifest, [*rungs(), own])
    assert fault == "backend"
    assert text.startswith("your own backend __main__:picky: ValueError in /home/ann/model.py:7; ")
    alone = [Rung("eager", "refused", refused="no"), own]
    assert decided(manifest, alone)[0] == "unknown"


def test_an_export_that_alone_fails_is_judged_by_its_stage():
    exported = Rung("eager", "reproduced", "export", error=UNSUPPORTED, options={"backend": None})
    assert (
        decided(recording(UNSUPPORTED, backend="eager", entry="export"), [*rungs(), exported])[0] == "dynamo"
    )


def test_nothing_that_fails_is_a_verdict_and_a_missing_recorded_backend_is_none():
    fault, text = decided(recording(LOWERING), rungs())
    assert fault == "none"
    assert text.startswith("nothing fails here: the recorded failure (RuntimeError) does not happen")
    assert decided(recording(None, event="success"), rungs()) == (
        "none",
        "nothing fails here, as when it was recorded",
    )
    for lacking in (
        Rung("inductor", "missing", missing=(CUDA,), options={"backend": None}),
        Rung("inductor", "refused", refused="nothing was compiled yet", options={"backend": None}),
    ):
        fault, text = decided(recording(LOWERING), rungs(inductor=lacking))
        assert fault == "unknown"
        assert text.endswith("; nothing fails up to aot_eager_decomp_partition")


def test_a_recompilation_is_an_event_and_no_failure():
    again = [Rung(name, "reproduced", reason="0/0: self.power == 'low'") for name in up_from("eager")]
    manifest = recording(None, event="recompile", backend="eager")
    fault, text = decided(manifest, [Rung("uncompiled", "passed"), *again])
    assert fault == "recompile"
    assert text == "TorchDynamo compiles the frame again, which is no failure: 0/0: self.power == 'low'"


def test_wrong_numbers_say_whose_which_and_by_how_much():
    found = Difference("output 0", (1,), 1.0, 0.0, 0.0, 2.15, 0.0, 0.001, ("/m.py", 3, "f"))
    off = error(stage="accuracy")
    climbed = rungs(
        inductor=Rung("inductor", "reproduced", error=off, difference=found, options={"backend": "inductor"})
    )
    fault, text = decided(recording(off, event="accuracy"), climbed)
    assert fault == "numerics"
    assert text == (
        "numerics of Inductor: output 0 is off by 2.15, where 0.001 is allowed in /m.py:3; "
        "under aot_eager_decomp_partition it passes"
    )
    pass_ = Bisected("inductor", "lowerings", 2, "relu", "aten.relu.default")
    assert decided(recording(off), climbed, pass_)[1].startswith(
        "numerics of Inductor lowering of aten.relu.default (bisected: lowerings, number 2, relu): "
    )


def test_a_bisected_lowering_is_named_with_its_operator_and_line():
    found = Bisected("inductor", "lowerings", 1, "where", "aten.where.self", ELSEWHERE, 12)
    fault, text = decided(recording(LOWERING), rungs(["inductor"], as_error=LOWERING), found)
    assert fault == "inductor_lowering"
    assert text.startswith(
        "Inductor lowering of aten.where.self (bisected: lowerings, number 1, where): RuntimeError in "
    )
    assert "/home/ann/model.py:9" in text


@pytest.mark.parametrize(
    ("raised", "otherwise", "passes", "others"),
    [
        ("RuntimeError", "NotImplementedError", False, 0),
        ("NotImplementedError", "NotImplementedError", True, 0),
        ("NotImplementedError", "", False, 1),
        ("RuntimeError", "RuntimeError", False, 0),
    ],
)
def test_a_step_that_ends_as_the_backend_below_has_not_the_failure(
    raised, otherwise, passes, others, monkeypatch
):
    error = ErrorInfo(raised, "", "runtime", "a-b", ())
    outcome = Outcome("x.rec", "different", "inductor", "f", error, None)
    monkeypatch.setattr(session, "replay", lambda request: (outcome, {}))
    search = Bisection(backend="inductor", wanted="RuntimeError", otherwise=otherwise, budget=1.0)
    assert search._passes(SimpleNamespace(request={"config": {}, "instruments": {}})) is passes
    assert search._others == others


def test_the_bisector_is_asked_only_for_what_it_can_take_apart():
    manifest = recording(LOWERING)
    assert bisection.applies(verdict.decide(manifest, rungs(["inductor"], as_error=LOWERING)))
    assert not bisection.applies(verdict.decide(manifest, rungs(up_from("eager"), as_error=UNSUPPORTED)))
    assert not bisection.applies(verdict.decide(manifest, rungs()))


# --- the ladder


def test_the_recorded_backend_is_replayed_as_recorded_and_an_own_one_is_added():
    names = [(rung.name, rung.options["backend"]) for rung in ladder.plan(recording(LOWERING))]
    assert names == [*((name, name) for name in STANDARD[:-1]), ("inductor", None)]
    own = ladder.plan(recording(LOWERING, backend="__main__:picky"))[-1]
    assert (own.name, own.options["backend"]) == ("__main__:picky", None)


def test_a_recorded_export_is_a_rung_of_its_own():
    planned = ladder.plan(recording(UNSUPPORTED, backend="eager", entry="export"))
    assert [rung.options["backend"] for rung in planned] == [*STANDARD, None]
    assert planned[-1].name == "eager, export"


def test_backends_are_chosen_or_added():
    assert [rung.name for rung in ladder.plan(recording(None), ["inductor", "eager"])] == [
        "eager",
        "inductor",
    ]
    added = [rung.name for rung in ladder.plan(recording(None), ["+nvfuser"])]
    assert added == [*STANDARD, "nvfuser"]
    with pytest.raises(replay.UsageError, match="an empty name"):
        ladder.plan(recording(None), ["+"])


def test_the_backward_is_looked_at_only_where_it_was_not_run_and_something_requires_a_gradient():
    leaf = TensorSpec((2,), (1,), 0, "float32", "cpu", "s0", requires_grad=True)
    with_leaf = replace(recording(LOWERING), tensors={"t0": leaf})
    assert ladder.backward(recording(LOWERING)) is None
    assert ladder.backward(with_leaf).options == {"backend": "uncompiled", "backward": True}
    assert ladder.backward(replace(with_leaf, compile=replace(with_leaf.compile, backward=True))) is None


# --- the report

FOUND = Bisected("inductor", "lowerings", 1, "where", "aten.where.self", ELSEWHERE, 12, 1, 15.0)


def specimen():
    """A triage with a row of every sort."""
    manifest = recording(LOWERING, backend="__main__:a_backend_with_a_rather_long_name")
    own = Rung("__main__:a_backend_with_a_rather_long_name", "different", error=UNSUPPORTED, seconds=2.0)
    climbed = [
        *rungs(
            ["inductor"],
            as_error=LOWERING,
            aot_eager=Rung("aot_eager", "missing", missing=(CUDA,), notes=("on the CPU",)),
            eager=Rung("eager", "passed", seconds=12.5, graphs=3, breaks=2, notes=("on the CPU",)),
        ),
        Rung("nvfuser", "refused", refused="--backend 'nvfuser': no such backend " + "x" * 99),
        own,
    ]
    decision = verdict.decide(manifest, climbed, FOUND)
    return Triage(
        bundle="x.rec",
        function="forward\x1b[2J",
        event="failure",
        fault=decision.fault,
        sentence=sentences.sentence(manifest, decision, FOUND),
        rung="inductor",
        place=decision.place,
        rungs=tuple(climbed),
        bisected=FOUND,
        notes=tuple(sentences.notes(manifest, decision, climbed, FOUND)),
        recorded_error=LOWERING,
        seconds=31.5,
    )


@pytest.fixture
def _plain_pipe(monkeypatch):
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def drawn(triage, verbose=0):
    stream = io.StringIO()
    draw_triage(triage, stream, verbose=verbose)
    return stream.getvalue()


@pytest.mark.usefixtures("_plain_pipe")
def test_the_report_looks_as_the_gold_file_in_80_columns_and_without_escapes():
    text = drawn(specimen())
    assert_gold("triage.txt", text)
    assert "\x1b" not in text
    table = text.partition("\nVerdict")[0]
    assert all(len(line) <= 80 for line in table.splitlines())


@pytest.mark.usefixtures("_plain_pipe")
def test_a_quiet_report_is_the_sentence_alone():
    assert drawn(specimen(), -1) == specimen().sentence + "\n"


def test_no_color_takes_the_colours_of_a_terminal_away(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured, plain = Terminal(), Terminal()
    draw_triage(specimen(), coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    draw_triage(specimen(), plain)
    colour = re.compile(r"\x1b\[[\d;]*3\d")
    assert colour.search(coloured.getvalue())
    assert not colour.search(plain.getvalue())


def test_the_json_has_the_rows_the_fault_and_the_place():
    found = json.loads(triage_json(specimen()))
    assert {"bundle", "function", "fault", "sentence", "place", "rungs", "bisected", "notes"} <= set(found)
    assert found["fault"] == "inductor_lowering"
    assert found["place"] == {
        "file": "/home/ann/model.py",
        "line": 9,
        "function": "forward",
        "code": ELSEWHERE.code,
    }
    assert {"name", "backend", "status", "error", "seconds", "graphs", "breaks"} <= set(found["rungs"][0])
    assert found["bisected"]["operator"] == "aten.where.self"


def test_a_verbose_report_says_which_replay_noted_what_and_all_drift():
    drift = (Drift("triton", "3.6.0", "none"),)
    text = drawn(replace(specimen(), drift=drift), 1)
    assert "on the CPU (eager, aot_eager)" in text
    assert re.search(r"triton +3\.6\.0 +none", text)
    assert "drift" in drawn(replace(specimen(), drift=drift))


def test_progress_says_how_far_it_is_and_how_the_last_replay_went(monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    now = ["triage of f: 0 of 5"]
    with progress.shown(lambda: now[0]):
        deadline = time.monotonic() + 20
        while "0 of 5" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        now[0] = command._describe("f", Progress((Rung("eager", "passed"),), 5))
        while "1 of 5" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "triage of f: 1 of 5, eager passed" in stream.getvalue()
    assert command._describe("f", Progress((), 5, bisecting=True)).endswith(
        "searching for the pass or the lowering"
    )


# --- real replays


def moody(gm, example_inputs):
    """A backend that behaves as the environment says."""
    mood = os.environ.get("MOODY")
    if mood == "hang":
        time.sleep(600)
    hoard = []
    while mood == "hoard":
        hoard.append(bytearray(os.urandom(1 << 20)) * 64)
    return gm.forward


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A recorded success under a backend whose mood may change."""
    import torch

    def step(x):
        return x * 2 + 1

    directory = tmp_path_factory.mktemp("moody")
    run = recorded(directory, lambda: torch.compile(step, backend=moody)(torch.ones(3)), on="all")
    [path] = run.bundles
    return path


@pytest.fixture
def mood(monkeypatch):
    return lambda word: monkeypatch.setenv("MOODY", word)


def invoke(*words):
    try:
        runner = CliRunner(mix_stderr=False)  # click < 8.2, which else has one stream for both
    except TypeError:
        runner = CliRunner()
    return runner.invoke(application, [str(word) for word in words])


def test_a_backend_that_is_not_there_is_a_row_and_the_others_are_run(bundle, capfd):
    found = replay.triage(bundle, backends=["eager", "nvfuser"], jobs=2)
    assert [(rung.name, rung.status) for rung in found.rungs] == [("eager", "passed"), ("nvfuser", "refused")]
    assert "no such backend" in found.rungs[1].refused
    assert capfd.readouterr() == ("", "")  # the Python API prints nothing


def test_a_hang_is_a_row_and_no_verdict(bundle, mood):
    mood("hang")
    result = invoke(
        "triage", bundle, "--backend", "eager", "--backend", backend_of(bundle), "--timeout", "25", "--json"
    )
    assert result.exit_code == 125, result.output
    found = json.loads(result.stdout)
    [eager, own] = found["rungs"]
    assert eager["status"] == "passed"
    assert (own["status"], own["error"]["type"]) == ("different", "Timeout")
    assert "its process was ended: timeout, 25 s" in found["sentence"]


def test_a_child_that_is_ended_for_memory_is_a_row(bundle, mood, monkeypatch):
    from replay.isolation import results

    mood("hoard")
    monkeypatch.setattr(results, "memory_limit", lambda: 2_000_000_000)
    found = replay.triage(bundle, backends=["eager", backend_of(bundle)], jobs=1, timeout=100)
    assert [rung.status for rung in found.rungs] == ["passed", "different"]
    assert found.rungs[1].error.type == "OutOfMemory"
    assert found.fault == "unknown"


def backend_of(path):
    with replay.load(path) as opened:
        return opened.manifest.compile.backend


def test_a_path_that_is_no_bundle_and_options_that_contradict_are_refused(tmp_path):
    (tmp_path / "x.rec").write_bytes(b"no bundle")
    assert invoke("triage", tmp_path / "x.rec").exit_code == 2
    assert invoke("triage", tmp_path / "nothing.rec").exit_code == 2
    assert invoke("triage", tmp_path / "x.rec", "-q", "-v").exit_code == 2


def test_the_command_says_the_sentence_in_a_process_of_its_own(bundle):
    done = python(
        "-m",
        "replay",
        "triage",
        bundle,
        "--backend",
        "uncompiled",
        "--backend",
        backend_of(bundle),
        "-q",
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "nothing fails here, as when it was recorded\n"


KERNEL = (
    "at 4:26:\ndef halves(source):\n    tl.store(target, a + b)\n               ^\nValueError: shapes differ"
)


@pytest.mark.parametrize(
    ("message", "same"),
    [
        (f"CompilationError: {KERNEL}\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace", True),
        (
            "CompilationError: at 9:2:\ndef other(source):\n    tl.load(source)\nValueError: no such thing",
            False,
        ),
    ],
)
def test_a_wrapped_message_is_the_same_failure_only_if_it_holds_the_whole_of_the_other(message, same):
    """A kernel that does not compile names a line of the kernel; the frames above it differ by backend."""
    kind = "triton.compiler.errors.CompilationError"
    wrapped = error("torch._inductor.exc.InductorError", "inductor", None, message, inner_type=kind)
    assert likeness.alike(wrapped, error(kind, "runtime", LINE, KERNEL)) is same


def test_a_success_that_computes_wrong_numbers_is_found_and_the_numbers_are_compared_only_then(tmp_path):
    import torch

    def positive(x):
        return torch.relu(x - 1)

    wrong = "relu_accuracy_error_TESTING_ONLY"
    run = recorded(tmp_path, lambda: torch.compile(positive, backend=wrong)(torch.ones(4)), on="all")
    found = replay.triage(run.bundles[0], backends=["eager", wrong], jobs=2)
    assert [rung.status for rung in found.rungs] == ["passed", "different"]
    assert (found.fault, found.rungs[1].error.stage) == ("numerics", "accuracy")
    assert found.sentence.startswith(f"numerics of the backend {wrong}: output is off by ")
    blind = replay.triage(run.bundles[0], backends=[wrong], jobs=1, compare=False)
    assert blind.fault == "none"
