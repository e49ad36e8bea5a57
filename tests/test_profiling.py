"""`profile()`: where the time goes. No absolute time is asserted: only what must hold on any machine."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from bundles import write_bundle
from click.testing import CliRunner
from gold import assert_gold
from programs import ROOT, no_relu, python, recorded
from specimens import DIFFERENT, ERROR, MISSING

import replay
from replay import files, profiling
from replay.cli.application import application
from replay.errors import UsageError
from replay.findings.profile import PHASES, Compilation, Hotspot, Measured, Profile, Timing
from replay.profiling import measuring, tracing
from replay.recording import UserFrame
from replay.replayer import observe
from replay.report.plain import profile_json
from replay.report.profile import draw_profile, show_duration, show_range, show_ratio
from replay.torch_adapter import phases, runs, spans

pytestmark = pytest.mark.timeout(600)  # a C++ compiler on a busy machine

INDUCTORS = {"passes", "lowering", "scheduling", "codegen", "processor", "compiler"}
ROUNDED = 0.002  # microseconds: a trace has three digits after the point


class Block(torch.nn.Module):
    """A transformer's block."""

    def __init__(self, width=64):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(width, 2, batch_first=True)
        self.before, self.between = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.wide, self.narrow = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        normal = self.before(x)
        x = x + self.attention(normal, normal, normal, need_weights=False)[0]
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.between(x))))


@pytest.fixture(scope="module")
def block(tmp_path_factory):
    """The profile of a transformer block, with its trace."""
    folder = tmp_path_factory.mktemp("block")
    program = torch.compile(Block(), backend="eager")
    inputs = torch.randn(2, 16, 64, requires_grad=True)
    [bundle] = recorded(folder, lambda: program(inputs), on="all", tensors="full").bundles
    heard = []
    found = replay.profile(
        bundle,
        backends=("eager", "inductor"),
        backward=True,
        seconds=0.2,
        trace=folder / "trace.json",
        heard=heard.append,
    )
    return SimpleNamespace(found=found, rows={row.backend: row for row in found.rows}, heard=heard)


def compilations(block):
    return [one for row in block.found.rows for one in (row.cold, row.warm, row.again) if one is not None]


def test_a_transformer_block_is_measured_uncompiled_and_under_each_backend(block):
    assert list(block.rows) == ["uncompiled", "eager", "inductor"]
    assert not any(row.failed for row in block.found.rows), block.found.rows
    for row in block.found.rows:
        for taken in (row.forward, row.backward):
            assert taken.runs >= 1
            assert 0 < taken.fastest <= taken.low <= taken.median <= taken.high
        assert row.load > 0
        assert row.peak >= 2 * 16 * 64 * 4, "a run allocates its output at least"
    assert (block.rows["uncompiled"].cold, block.rows["uncompiled"].speedup) == (None, {})
    assert [text.rpartition(" ")[2] for text in block.heard] == [
        "uncompiled",
        "eager",
        "inductor",
        "inductor",
    ]


def test_the_phases_of_a_first_call_add_up_to_what_was_measured(block):
    found = compilations(block)
    assert len(found) == 5  # eager: cold, again; inductor: cold, warm, again
    for one in found:
        assert sum(one.phases.values()) == pytest.approx(one.seconds, rel=1e-9)
        assert set(one.phases) <= set(PHASES)
        assert min(one.phases.values()) >= 0
        assert one.graphs == 1
        assert 0 < one.compiling < one.seconds


def test_each_backends_phases_are_its_own(block):
    eager, cold = block.rows["eager"].cold.phases, block.rows["inductor"].cold.phases
    assert {"dynamo", "guards"} <= set(eager)
    assert not set(eager) & {*INDUCTORS, "aot", "partitioner"}
    assert {"dynamo", "guards", "aot", "partitioner", *INDUCTORS} <= set(cold)


def test_a_second_process_finds_the_first_ones_caches(block):
    row = block.rows["inductor"]
    assert all(not name.endswith("hit") for name in row.cold.caches)
    assert any(name.endswith("miss") for name in row.cold.caches)
    assert any(name.endswith("hit") for name in row.warm.caches)
    assert row.warm.phases.get("compiler", 0.0) < row.cold.phases["compiler"]
    assert "lowering" not in row.warm.phases
    assert block.rows["eager"].warm is None, "there is no cache that it could find"


def test_a_speedup_is_the_ratio_of_the_medians(block):
    base = block.rows["uncompiled"]
    for row in (block.rows["eager"], block.rows["inductor"]):
        for name in ("forward", "backward"):
            assert row.speedup[name] == getattr(base, name).median / getattr(row, name).median


def test_kernels_of_inductor_are_named_with_the_users_lines(block):
    kernels = [one for one in block.rows["inductor"].hotspots if one.name.startswith("cpp_")]
    assert kernels
    lines = Block.forward.__code__
    inside = range(lines.co_firstlineno, lines.co_firstlineno + 4)
    places = [place for one in kernels for place in one.places]
    assert {place.line for place in places} & set(inside)
    assert all(place.file == __file__ for place in places)
    gelu = [place for one in kernels if "gelu" in one.name for place in one.places]
    assert any("gelu" in place.code for place in gelu)


def test_operators_share_all_time_and_the_hottest_is_first(block):
    for row in block.found.rows:
        shares = [one.share for one in row.hotspots]
        assert shares == sorted(shares, reverse=True)
        assert 0 < sum(shares) <= 1 + 1e-9
    uncompiled = {one.name: one for one in block.rows["uncompiled"].hotspots}
    assert (
        uncompiled["aten::addmm"].calls == 3
    )  # into the attention, wide and narrow; its own output is fused


def test_the_trace_is_one_that_perfetto_opens(block):
    events = json.loads(Path(block.found.trace).read_text(encoding="utf-8"))["traceEvents"]
    assert_nests(events)
    titles = [one["args"]["name"] for one in events if one["name"] == "process_name"]
    assert titles == [
        "uncompiled: runs, profiled",
        "eager: compile, cold",
        "eager: runs, profiled",
        "inductor: compile, cold",
        "inductor: runs, profiled",
        "inductor: compile, warm",
    ]
    names = {one["name"] for one in events if one["ph"] == "X"}
    assert {"entire_frame_compile", "GraphLowering.run", "aten::addmm"} <= names


def assert_nests(events):
    """Chrome's format: metadata and complete events; those of one thread lie inside or beside each other."""
    threads = defaultdict(list)
    for one in events:
        assert one["ph"] in "XM"
        assert isinstance(one["name"], str) and isinstance(one["pid"], int) and isinstance(one["tid"], int)
        if one["ph"] == "X":
            assert one["ts"] >= 0 and one["dur"] >= 0
            threads[one["pid"], one["tid"]].append((one["ts"], -one["dur"]))
    assert threads
    for own in threads.values():
        ends = []
        for start, negative in sorted(own):
            while ends and ends[-1] <= start + ROUNDED:
                ends.pop()
            assert not ends or start - negative <= ends[-1] + ROUNDED, "two events overlap"
            ends.append(start - negative)


def test_the_check_of_traces_sees_an_overlap():
    inside = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0.0, "dur": 5.0}
    with pytest.raises(AssertionError, match="overlap"):
        assert_nests([inside, {**inside, "ts": 3.0}])


def test_the_report_of_a_block_has_80_columns_and_no_escapes(block):
    for verbose in (0, 1):
        text = drawn(replace(block.found, trace=None), verbose)
        assert max(len(line) for line in text.splitlines()) <= 80
        assert "\x1b" not in text
        for words in ("Run time, forward", "Run time, backward", "C++ or Triton compiler", "aten::addmm"):
            assert words in text


# --- spans and phases


def span(name, start, end, *, thread=1, path=(), inside=0):
    return spans.Span(name, start, thread, path, end, inside)


def test_a_span_without_a_name_of_ours_belongs_to_the_one_around_it():
    assert phases.phase_of(span("new_in_3.0", 0, 1, path=("dynamo", "GraphLowering.run"))) == "lowering"
    assert phases.phase_of(span("new_in_3.0", 0, 1)) == "other"
    assert phases.phase_of(span("Scheduler.codegen", 0, 1)) == "codegen"
    assert phases.phase_of(span("Scheduler.__init__", 0, 1)) == "scheduling"


def test_another_threads_time_counts_only_where_the_calling_one_compiled_nothing():
    found = [
        span("compile_file", 5, 9, thread=2),
        span("build_guards", 2, 4, path=("dynamo",)),
        span("dynamo", 0, 10, inside=2),
        span("entire_backward_compile", 20, 25, thread=3),
    ]
    assert phases.split(found, 1) == ({"guards": 2, "dynamo": 8, "backend": 5}, 4)


def test_the_compilers_spans_and_its_imports_are_collected_and_nothing_stays(tmp_path, monkeypatch):
    (tmp_path / "outer_of_profile.py").write_text("import inner_of_profile\n")
    (tmp_path / "inner_of_profile.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    logger = torch._dynamo.utils.ChromiumEventLogger
    before = (logger.log_event_start, logger.log_event_end, list(sys.meta_path))
    ends = []

    def program(x):
        return x + 1

    torch._dynamo.reset()
    with spans.collected(lambda: ends.append(1)) as found:
        import outer_of_profile

        torch.compile(program, backend="eager")(torch.ones(2))
    names = [one.name for one in found.ended]
    assert "import outer_of_profile" in names
    assert "import inner_of_profile" not in names, "it is part of the outer one"
    assert "entire_frame_compile" in names
    assert ends
    assert all(one.own >= 0 and one.end >= one.start for one in found.ended)
    assert (logger.log_event_start, logger.log_event_end, list(sys.meta_path)) == before
    assert "exec_module" not in vars(outer_of_profile.__loader__)
    for name in ("outer_of_profile", "inner_of_profile"):
        del sys.modules[name]
    torch._dynamo.reset()


# --- repeated runs


def test_what_a_frame_writes_to_is_put_back_before_each_call():
    counter, weight = torch.zeros(3), torch.ones(3, requires_grad=True)
    seen = []

    def writes(x):
        seen.append(float(counter[0]))
        counter.add_(1)
        x.mul_(2)
        return x * weight

    repeated = runs.Repeated(writes, (torch.ones(3),), {}, backward=True)
    found = repeated.repeat(seconds=10.0, most=7)
    assert len(found) == 7
    assert set(seen) == {0.0}
    assert all(one.forward > 0 and one.backward > 0 for one in found)
    assert torch.equal(weight.grad, torch.full((3,), 2.0)), "of one call, not of all"
    repeated.put_back()
    assert (float(counter[0]), weight.grad) == (0.0, None)


def test_runs_are_bounded_by_number_and_by_time():
    repeated = runs.Repeated(lambda: None, (), {}, backward=False)
    assert len(repeated.repeat(seconds=60.0, most=3)) == 3
    assert len(repeated.repeat(seconds=1e-9, most=10_000)) <= runs.FEWEST


def test_without_anything_to_differentiate_there_is_no_backward_time():
    repeated = runs.Repeated(lambda x: x + 1, (torch.ones(2),), {}, backward=True)
    assert repeated.run().backward is None


# --- the instrument, in this process


def stopped(bundle, *, backend="eager", **options):
    """What the instrument finds, and the outcome."""
    instruments = {"profile": {"seconds": 0.01, "most": 5, **options}}
    found = observe(bundle, instruments, {"backend": backend, "backward": True}, isolate=False)
    return found.outcome, found.found["profile"]


def breaking(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y * x


def test_a_frame_of_two_graphs_over_a_computed_input_is_run_forward_and_backward(tmp_path):
    def program():
        x = torch.ones(3, requires_grad=True) * 2
        torch.compile(breaking, backend="eager")(x)

    bundles = recorded(tmp_path, program, on="all", only="breaking", tensors="full").bundles
    _, found = stopped(bundles[0])
    assert found["first"]["graphs"] == found["again"]["graphs"] == 2
    assert found["forward"]["runs"] == found["backward"]["runs"] == 5
    assert found["notes"] == []
    assert "events" not in found, "nobody asked for them"


def test_the_failure_that_a_measurement_meets_is_judged_as_in_any_replay(tmp_path):
    [bundle] = recorded(tmp_path, lambda: torch.compile(no_sum, backend="eager")(torch.ones(3))).bundles
    for backend in ("eager", "uncompiled"):
        outcome, found = stopped(bundle, backend=backend)
        assert "forward" not in found
        assert outcome.error is not None
    assert stopped(bundle)[0].status == "reproduced"


def no_sum(x):
    return x.reshape(1, 3) @ x.reshape(1, 3)


def test_a_frame_that_raises_only_when_it_is_called_again_keeps_its_first_call(tmp_path):
    def once(x, calls):
        calls.append(1)
        if len(calls) > 1:
            raise ValueError("once is enough")
        return x + 1

    program = torch.compile(once, backend="eager")
    [bundle] = recorded(tmp_path, lambda: program(torch.ones(3), []), on="all", tensors="full").bundles
    _, found = stopped(bundle)
    assert found["first"]["graphs"] == 1
    assert "forward" not in found
    [note] = found["notes"]
    assert "called once more, the frame raised" in note


def growing(x, log):
    log.append(1)
    return x + len(log)


def test_what_is_compiled_again_at_each_call_is_told(tmp_path):
    program = torch.compile(growing, backend="eager", dynamic=False)
    [bundle] = recorded(tmp_path, lambda: program(torch.ones(3), []), on="all", tensors="full").bundles
    _, found = stopped(bundle)
    assert any("compiled while it was timed" in note for note in found["notes"])


# --- a profile of stand-ins: what becomes of what the processes answer

TIMED = {"runs": 9, "median": 2e-3, "low": 1.9e-3, "high": 2.2e-3, "fastest": 1.8e-3}
FIRST = {"seconds": 1.5, "phases": {"dynamo": 1.0, "compiler": 0.25, "run": 0.25}, "caches": {}, "graphs": 1}


class StandIn:
    """In place of Trials: answers as told, by backend."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []

    def __call__(self, bundle, *, jobs, timeout, trust, sandbox):
        assert jobs == 1, "nothing runs beside a measurement"
        self.recorded = bundle.manifest.compile.backend
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def run(self, trials):
        [trial] = trials
        self.asked.append(trial)
        name = trial.options["backend"] or self.recorded
        return [replace(trial, **self.answers[name](trial))]


def passes(forward=TIMED, **found):
    return lambda trial: {"outcome": REPLAYED, "found": {"profile": {"forward": forward, **found}}}


REPLAYED = replace(DIFFERENT, status="passed", error=None, notes=())


@pytest.fixture
def stand_in(monkeypatch):
    def install(**answers):
        trials = StandIn(answers)
        monkeypatch.setattr(measuring, "Trials", trials)
        return trials

    return install


def test_what_fails_or_cannot_be_replayed_is_a_row(stand_in, tmp_path):
    stand_in(
        uncompiled=passes(),
        eager=passes({**TIMED, "median": 4e-3}),
        aot_eager=lambda trial: {"outcome": DIFFERENT},
        inductor=lambda trial: {"refused": "after 600 s nothing was compiled yet"},
        nothing=lambda trial: {"outcome": replace(MISSING, recorded_error=None)},
    )
    names = ("eager", "aot_eager", "inductor", "nothing")
    found = replay.profile(write_bundle(tmp_path), backends=names)
    rows = {row.backend: row for row in found.rows}
    assert list(rows) == ["uncompiled", *names]
    assert rows["eager"].speedup == {"forward": 0.5}
    assert rows["aot_eager"].error == DIFFERENT.error
    assert rows["inductor"].refused == "after 600 s nothing was compiled yet"
    assert "einops" in rows["nothing"].refused
    assert (found.measured, found.status) == (True, "")
    text = drawn(found)
    assert "after 600 s nothing was compiled yet" in text and "einops 0.8.2 is not installed here" in text


def test_only_where_a_cache_was_filled_a_second_process_looks_for_it(stand_in, tmp_path):
    asked = stand_in(
        uncompiled=passes(),
        eager=passes(first={**FIRST, "phases": {"dynamo": 1.5}}),
        inductor=passes(first=FIRST),
    ).asked
    found = replay.profile(write_bundle(tmp_path), backends=("eager", "inductor"))
    assert [one.options["backend"] or "as recorded" for one in asked] == [
        "uncompiled",
        "eager",
        "as recorded",
        "as recorded",
    ]
    assert [one.instruments["profile"]["compiles_only"] for one in asked] == [False, False, False, True]
    directories = [one.options["env"]["TORCHINDUCTOR_CACHE_DIR"] for one in asked]
    assert directories[2] == directories[3] and len(set(directories)) == 3
    assert found.rows[2].warm == found.rows[2].cold is not None


def test_over_fake_tensors_nothing_is_timed_but_all_on_the_cpu(stand_in, tmp_path):
    def answers(trial):
        fake = trial.options["device"] is None
        return {"outcome": REPLAYED, "found": {"profile": {"fake": True} if fake else {"forward": TIMED}}}

    asked = stand_in(uncompiled=answers, eager=answers).asked
    found = replay.profile(write_bundle(tmp_path), backends=("eager",))
    assert [one.options["device"] for one in asked] == [None, "cpu", "cpu"]
    assert all(not row.failed for row in found.rows)
    assert any("measured on the CPU" in note for note in found.notes)


@pytest.mark.parametrize(("load", "told"), [(3.5, True), (0.5, False)])
def test_a_busy_machine_is_told(load, told, stand_in, tmp_path, monkeypatch):
    stand_in(uncompiled=passes(), eager=passes())
    monkeypatch.setattr(measuring.os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(measuring, "processors", lambda: 2)
    notes = replay.profile(write_bundle(tmp_path), backends=("eager",)).notes
    assert ("the machine was busy before (load 3.5, 2 processors): times may mislead" in notes) == told


def test_a_frame_that_fails_everywhere_has_a_status_and_no_times(stand_in, tmp_path):
    stand_in(uncompiled=lambda trial: {"outcome": DIFFERENT}, eager=lambda trial: {"outcome": DIFFERENT})
    path = tmp_path / "trace.json"
    found = replay.profile(write_bundle(tmp_path), backends=("eager",), trace=path)
    assert (found.measured, found.status) == (False, "different")
    assert "It fails under all of them, also uncompiled" in drawn(found)
    assert (found.trace, path.exists()) == (None, False)
    assert "no trace was written: nothing was measured" in found.notes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seconds": 0}, "--seconds 0"),
        ({"repeat": 0}, "--repeat 0"),
        ({"trace": "trace.txt"}, "must end in .json or .json.gz"),
        ({"trace": "no/such/trace.json"}, "there is no directory"),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused_before_anything_runs(options, words, stand_in, tmp_path):
    trials = stand_in()
    with pytest.raises(UsageError, match=words):
        replay.profile(write_bundle(tmp_path), **options)
    assert trials.asked == []


# --- traces

TRACK = tracing.Track(
    "a: compile, cold", (("inner", "aot", 1_500, 500, "7"), ("outer", "", 1_000, 2_000, "7"))
)


def test_a_trace_counts_microseconds_from_its_first_event_and_can_be_packed(tmp_path):
    for name, opened in (("t.json", open), ("t.json.gz", gzip.open)):
        tracing.write(tmp_path / name, [TRACK])
        with opened(tmp_path / name, "rt") as file:
            events = json.loads(file.read())["traceEvents"]
        assert_nests(events)
        complete = [(one["name"], one["ts"], one["dur"]) for one in events if one["ph"] == "X"]
        assert complete == [("outer", 0.0, 2.0), ("inner", 0.5, 0.5)]


def test_a_trace_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        tracing.write(tmp_path / "t.json", [TRACK])
    assert list(tmp_path.iterdir()) == []


# --- the report and the command

COLD = Compilation(
    seconds=20.0,
    phases={"dynamo": 2.0, "guards": 0.01, "compiler": 16.99, "imports": 0.5, "run": 0.5},
    aside=4.0,
    caches={"fxgraph_cache_miss": 1},
    graphs=1,
)
WARM = Compilation(2.0, {"dynamo": 1.0, "caches": 0.9, "run": 0.1}, 0.0, {"fxgraph_cache_hit": 1}, 1)
PROFILE = Profile(
    bundle="x.rec",
    function="Block.forward",
    recorded="inductor",
    rows=(
        Measured(
            "uncompiled",
            load=2.0,
            forward=Timing(1000, 3.2e-4, 3.1e-4, 3.5e-4, 3e-4),
            peak=57_000,
            hotspots=(
                Hotspot("aten::mm", "cpu", 2.0, 2e-4, 0.8),
                Hotspot("aten::add", "cpu", 1.5, 5e-5, 0.2),
            ),
        ),
        Measured(
            "inductor",
            load=2.1,
            cold=COLD,
            warm=WARM,
            again=replace(WARM, seconds=1.0, phases={"dynamo": 1.0}),
            forward=Timing(12, 0.64, 1e-4, 2.0, 5e-5),
            speedup={"forward": 5e-4},
            peak=0,
            hotspots=(
                Hotspot(
                    "cpp_fused_add_mul_0",
                    "cpu",
                    1.0,
                    1.5e-4,
                    1.0,
                    (UserFrame("/n/m.py", 7, "f", "x\x1b + 1"), UserFrame("/n/o.py", 9, "g", "")),
                ),
            ),
            notes=("called once more, the frame raised ValueError: \x1b[2J",),
        ),
        Measured("aot_eager", error=ERROR),
    ),
    notes=("1 tensor storage holds made-up values (0.1 MB)",),
    trace="t.json",
)


def drawn(found, verbose=0):
    stream = io.StringIO()
    draw_profile(found, stream, verbose=verbose)
    return stream.getvalue()


@pytest.fixture(autouse=True)
def _plain_pipe(monkeypatch):
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_profile_looks_as_the_gold_file(verbose):
    text = drawn(PROFILE, verbose)
    assert_gold(f"profile{'_verbose' if verbose else ''}.txt", text)
    assert "\x1b" not in text


def test_durations_have_three_digits_and_a_unit():
    shown = [show_duration(one) for one in (0.0, 4.2e-6, 9.994e-5, 1.31e-2, 2.5, 120.4)]
    assert shown == ["0.00 us", "4.20 us", "99.9 us", "13.1 ms", "2.50 s", "120 s"]
    assert [show_range(low, 4.8e-3) for low in (1.1e-3, 4.1e-4)] == ["1.10-4.80 ms", "410 us-4.80 ms"]
    assert [show_ratio(one) for one in (2.414, 0.1, 0.0038)] == ["2.41", "0.10", "0.0038"]


def test_the_json_of_a_profile_has_what_the_report_shows():
    found = json.loads(profile_json(PROFILE))
    assert (found["function"], found["recorded"]) == ("Block.forward", "inductor")
    row = found["rows"][1]
    assert row["forward"]["median"] == 0.64 and row["speedup"] == {"forward": 5e-4}
    assert sum(row["cold"]["phases"].values()) == row["cold"]["seconds"]
    assert row["hotspots"][0]["places"][0]["line"] == 7
    assert found["rows"][2]["error"]["type"] == ERROR.type


def invoke(*words):
    try:
        runner = CliRunner(mix_stderr=False)  # click < 8.2, which else has one stream for both
    except TypeError:
        runner = CliRunner()
    return runner.invoke(application, list(words))


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (PROFILE, 0),
        (replace(PROFILE, rows=PROFILE.rows[2:], status="reproduced"), 1),
        (replace(PROFILE, rows=PROFILE.rows[2:], status="different"), 3),
        (replace(PROFILE, rows=PROFILE.rows[2:], status="missing"), 125),
        (replace(PROFILE, rows=(Measured("eager", refused="no"),), status=""), 2),
    ],
)
def test_the_exit_code_is_0_if_anything_was_measured_else_the_replays(found, code, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(profiling, "profile", lambda bundle, **options: asked.append(options) or found)
    words = [str(write_bundle(tmp_path)), "--backend", "eager", "--no-backward", "--repeat", "7"]
    result = invoke("profile", *words)
    assert result.exit_code == code, result.stderr
    assert (asked[0]["backends"], asked[0]["backward"], asked[0]["repeat"]) == (("eager",), False, 7)
    assert json.loads(invoke("profile", "--json", *words).stdout)["function"] == "Block.forward"


def test_the_help_says_what_the_exit_codes_are():
    text = invoke("profile", "--help").stdout
    assert "Exit codes: 0 something was measured" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_frame_that_its_recorded_backend_refuses_is_still_measured_without_it(tmp_path):
    [bundle] = recorded(
        tmp_path,
        lambda: torch.compile(lambda x: x.relu() + 1, backend=no_relu)(torch.ones(3)),
        tensors="full",
    ).bundles
    words = ["--backend", "programs:no_relu", "--seconds", "0.05", "--json"]
    result = python(
        "-m", "replay", "profile", bundle, *words, cwd=tmp_path, PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}"
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    uncompiled, refused = found["rows"]
    assert uncompiled["forward"]["runs"] >= 1
    assert uncompiled["backend"] == "uncompiled" and uncompiled["speedup"] == {}
    assert (refused["backend"], refused["forward"]) == ("programs:no_relu", None)
    assert "no relu here" in refused["error"]["message"]
