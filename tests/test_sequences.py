"""The sequence of a frame's compilations: each cause recorded in one process, and met again in another."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from pathlib import Path

import pytest
import torch
from processes import run_python
from programs import here, recorded

import replay
from replay.recompilation.counting import count
from replay.recorder import series

ROOT = Path(__file__).parent.parent
LIMIT = "recompile_limit"


class Gain:
    def __init__(self, gain):
        self.gain = gain


class Louder(Gain):
    pass


class Settings(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mode, self.parts, self.act, self.dtype = "a", [], torch.relu, torch.float32

    def forward(self, x):
        y = x * 2 if self.mode == "a" else x * 3
        for part in self.parts:
            y = y + part
        return self.act(y).to(self.dtype)


def times(x, factor):
    return x * factor


def plus_one(x):
    return x + 1


def named(x, name):
    return x * 2 if name else x


def applied(x, function):
    return function(x)


def gained(x, by):
    return x * (by.gain if isinstance(by, Gain) else by)


def counted(x, items):
    return x * len(items)


FACTOR = 1


def scaled(x):
    return x * FACTOR


def compiled(function, **options):
    return torch.compile(function, backend="eager", **options)


def changing_integers():
    run = compiled(times, dynamic=False)
    for factor in (3, 4, 5):
        run(torch.ones(3), factor)


def changing_sizes():
    run = compiled(plus_one, dynamic=False)
    for size in (3, 4, 5):
        run(torch.ones(size))


def changing_strings():
    run = compiled(named)
    for name in "abc":
        run(torch.ones(3), name)


def changing_module_attributes():
    module = Settings()
    run = compiled(module)
    run(torch.ones(3))
    module.mode = "b"
    run(torch.ones(3))
    module.parts.append(torch.ones(3))
    run(torch.ones(3))
    module.act = torch.sigmoid
    run(torch.ones(3))
    module.dtype = torch.float64
    run(torch.ones(3))


def new_function_objects():
    run = compiled(applied)
    for factor in range(3):
        run(torch.ones(3), lambda x, factor=factor: x * factor)


def new_functions_over_a_variable():
    run = compiled(applied)
    for factor in range(3):
        run(torch.ones(3), lambda x: x * factor)  # noqa: B023


def grad_mode_and_other_state():
    run, x = compiled(plus_one), torch.ones(3, requires_grad=True)
    run(x)
    with torch.no_grad():
        run(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run(x)


def types_of_arguments():
    run = compiled(gained)
    for by in (2, 2.5, Gain(3), Louder(3)):
        run(torch.ones(3), by)


def lengths_of_lists():
    run = compiled(counted)
    for length in (1, 2, 3):
        run(torch.ones(3), [0] * length)


def a_changing_global():
    global FACTOR
    run = compiled(scaled)
    for value in (1, 2.5, 4):
        FACTOR = value
        run(torch.ones(3))


def other_modules():
    run, modules = compiled(applied), [torch.nn.Linear(3, 3), torch.nn.ReLU()]
    for module in modules:
        run(torch.ones(3), module)


def the_limit():
    run = compiled(named)
    for number in range(12):
        run(torch.ones(3), f"step {number}")


CAUSES = {
    one.__name__: one
    for one in (
        changing_integers,
        changing_sizes,
        changing_strings,
        changing_module_attributes,
        new_function_objects,
        new_functions_over_a_variable,
        grad_mode_and_other_state,
        types_of_arguments,
        lengths_of_lists,
        a_changing_global,
        other_modules,
        the_limit,
    )
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A bundle of each cause, all recorded in this process, under the cause's name."""
    folder = tmp_path_factory.mktemp("recorded")
    for name, program in CAUSES.items():
        (path,) = recorded(folder / "all", program, on="recompile").bundles
        path.rename(folder / f"{name}.rec")
    return folder


@pytest.fixture(scope="module")
def outcomes(folder, tmp_path_factory):
    """Outcomes by "NAME recorded", from another process."""
    program = str(ROOT / "tests" / "replay_recordings.py")
    printed = run_python(tmp_path_factory.mktemp("empty"), program, str(folder), "recorded")
    return json.loads(printed.splitlines()[-1])


def manifest(folder, name):
    with replay.load(folder / f"{name}.rec") as bundle:
        return bundle.manifest


@pytest.mark.parametrize("name", CAUSES)
def test_a_sequence_is_met_again_elsewhere(name, folder, outcomes):
    outcome, found = outcomes[f"{name} recorded"], manifest(folder, name)
    recorded_calls = [*found.calls, found.sequence.last]
    assert outcome["status"] == "reproduced", outcome["notes"]
    assert len(recorded_calls) > 1
    assert [one["error"] for one in outcome["calls"]] == [""] * len(recorded_calls)
    for one, again in zip(recorded_calls, outcome["calls"], strict=True):
        assert (again["fingerprint"], again["limit"]) == (one.fingerprint, one.limit)
        assert len(again["reasons"]) == len(one.reasons)


@pytest.mark.parametrize("name", CAUSES)
def test_a_call_says_when_it_was_and_for_each_cached_entry_why_that_does_not_fit(name, folder):
    found = manifest(folder, name)
    calls = [*found.calls, found.sequence.last]
    assert [len(one.reasons) for one in calls] == list(range(len(calls)))
    started = [one.started for one in calls]
    assert started == sorted(started)
    assert all(one.seconds > 0 for one in calls)


def test_values_that_guards_read_are_told(folder):
    found = manifest(folder, "changing_strings")
    shown = [[row.summary for row in one.inputs] for one in (*found.calls, found.sequence.last)]
    assert shown == [["float32[3] cpu", repr(name)] for name in "abc"]
    found = manifest(folder, "a_changing_global")
    rows = [one.inputs[-1] for one in (*found.calls, found.sequence.last)]
    assert [(row.name, row.role, row.summary) for row in rows] == [
        ("FACTOR", "global", text) for text in ("1", "2.5", "4")
    ]


def test_state_is_told_where_it_is_other_than_at_the_first_call(folder):
    found = manifest(folder, "grad_mode_and_other_state")
    states = [one.state for one in (*found.calls, found.sequence.last)]
    assert states[0] == {}
    assert states[1] == {"grad_enabled": False}
    assert list(states[2]) == ["autocast"]


def test_the_limit_is_told_and_ends_the_sequence(folder, outcomes):
    found = manifest(folder, "the_limit")
    assert [one.limit for one in found.calls] == [""] * 8
    assert found.sequence.last.limit == LIMIT
    assert [one["fate"] for one in outcomes["the_limit recorded"]["calls"]] == ["compiled"] * 8 + [
        "uncompiled"
    ]


def test_a_higher_limit_shows_that_the_recorded_one_was_the_limit(folder):
    outcome = here(folder / "the_limit.rec", recompile_limit=20)
    assert (outcome.status, outcome.calls[-1].fate) == ("passed", "compiled")
    assert any("call 9" in note for note in outcome.notes)


def test_a_lower_limit_shows_in_the_calls(folder):
    outcome = here(folder / "changing_strings.rec", recompile_limit=1)
    assert [one.limit for one in outcome.calls] == ["", LIMIT, ""]
    assert [one.fate for one in outcome.calls] == ["compiled", "uncompiled", "uncompiled"]


def test_each_frame_has_a_bundle_and_a_filter_shows_one_alone(tmp_path):
    def program():
        changing_sizes()
        changing_strings()

    both = recorded(tmp_path / "both", program, on="recompile").bundles
    assert sorted(replay.load(path).manifest.frame.name for path in both) == ["named", "plus_one"]
    one = recorded(tmp_path / "one", program, on="recompile", only="named").bundles
    assert [replay.load(path).manifest.frame.name for path in one] == ["named"]
    assert len(recorded(tmp_path / "few", program, on="recompile", max_bundles=1).bundles) == 1


def test_the_bundle_is_whole_where_the_program_raises(tmp_path):
    def program():
        changing_strings()
        raise KeyError("of the program")

    run = recorded(tmp_path, program, on="recompile")
    assert isinstance(run.error, KeyError)
    assert len(run.manifest.calls) == 2


def test_a_reset_begins_anew_and_the_longest_sequence_stays(tmp_path):
    def program():
        changing_strings()
        torch._dynamo.reset()
        run = compiled(named)
        for name in "xy":
            run(torch.ones(3), name)

    run = recorded(tmp_path, program, on="recompile")
    assert len(run.bundles) == 1
    assert [one.inputs[1].summary for one in run.manifest.calls] == ["'a'", "'b'"]


def test_threads_make_one_sequence(tmp_path):
    def program():
        run = compiled(named)
        run(torch.ones(3), "first")
        threads = [threading.Thread(target=run, args=(torch.ones(3), name)) for name in "abc"]
        for one in threads:
            one.start()
            one.join()

    run = recorded(tmp_path, program, on="recompile")
    assert len(run.bundles) == 1
    assert len(run.manifest.calls) == 3
    assert here(run.bundles[0]).status == "reproduced"


def test_nested_blocks_each_have_what_they_saw(tmp_path):
    run, inner = compiled(named), None

    def program():
        nonlocal inner
        run(torch.ones(3), "a")
        run(torch.ones(3), "b")
        with replay.record(tmp_path / "inner", on="recompile") as inner:
            run(torch.ones(3), "c")

    outer = recorded(tmp_path / "outer", program, on="recompile")
    assert len(outer.manifest.calls) == 2
    assert len(replay.load(inner.bundles[0]).manifest.calls) == 0


def test_no_tensor_of_the_programs_is_kept_alive(tmp_path):
    gone = []

    def program():
        run = compiled(gained)
        for by in (Gain(1), Gain(2), Louder(3)):
            by.tensor = torch.ones(3)
            x = torch.ones(3)
            gone.extend([weakref.ref(x), weakref.ref(by.tensor), weakref.ref(by)])
            run(x, by)

    torch._dynamo.reset()
    with replay.record(tmp_path, on="recompile") as recorder:
        program()
        gc.collect()
        assert [one() for one in gone] == [None] * len(gone)
    assert here(recorder.bundles[0]).status == "reproduced"


MANY = 40


def patched(**values):
    return torch._dynamo.config.patch(recompile_limit=100, accumulated_recompile_limit=100, **values)


def many_strings(run, numbers):
    with patched():
        for number in numbers:
            run(torch.ones(3), f"step {number}")


def length_of(path):
    with replay.load(path) as bundle:
        return len(bundle.manifest.calls) + 1


@pytest.fixture
def writes(monkeypatch):
    """How many calls each bundle of a sequence held when it was written; time plays no part."""
    seen, write = [], series.capture.write_sequence

    def noted(*arguments):
        published = write(*arguments)
        seen.append(length_of(published.path))
        return published

    monkeypatch.setattr(series.capture, "write_sequence", noted)
    monkeypatch.setattr(series, "PATIENCE", float("inf"))
    return seen


def test_of_many_calls_the_bundle_is_written_seldom_and_holds_all_at_the_end(tmp_path, writes):
    run = compiled(named)
    (path,) = recorded(tmp_path, lambda: many_strings(run, range(MANY)), on="recompile").bundles
    assert writes == [*range(2, 17), 24, 36, MANY]
    manifest = replay.load(path).manifest
    shown = [one.inputs[1].summary for one in (*manifest.calls, manifest.sequence.last)]
    assert shown == [repr(f"step {number}") for number in range(MANY)]
    outcome = here(path)  # under the limit of that time, which is over when the block ends
    assert (outcome.status, count(outcome.calls).compiles) == ("reproduced", MANY)


def test_a_crash_loses_a_third_of_the_calls_at_most(tmp_path, writes):
    def program():
        run = compiled(named)
        for number in range(1, MANY):
            many_strings(run, [number])
            if number > 1:
                (path,) = tmp_path.glob("*.rec")
                assert 3 * length_of(path) >= 2 * number

    assert recorded(tmp_path, program, on="recompile").error is None


def test_calls_that_wait_are_written_where_the_program_raises(tmp_path, writes):
    def program():
        many_strings(compiled(named), range(30))
        raise KeyError("of the program")

    run = recorded(tmp_path, program, on="recompile")
    assert isinstance(run.error, KeyError)
    assert length_of(run.bundles[0]) == 30


def test_calls_that_wait_are_written_before_a_reset(tmp_path, writes):
    def program():
        many_strings(compiled(named), range(30))
        torch._dynamo.reset()
        many_strings(compiled(named), range(3))

    assert length_of(recorded(tmp_path, program, on="recompile").bundles[0]) == 30


def test_a_limit_is_written_at_once(tmp_path, writes):
    def program():
        run = compiled(named)
        with torch._dynamo.config.patch(recompile_limit=20):
            for number in range(25):
                run(torch.ones(3), f"step {number}")
        assert writes[-1] == 21

    run = recorded(tmp_path, program, on="recompile")
    assert (run.error, run.manifest.sequence.last.limit) == (None, LIMIT)


def test_where_writing_takes_little_of_the_time_every_call_is_written(tmp_path, writes, monkeypatch):
    monkeypatch.setattr(series, "PATIENCE", 0.0)
    recorded(tmp_path, lambda: many_strings(compiled(named), range(20)), on="recompile")
    assert writes == [*range(2, 21)]


def test_calls_whose_object_is_gone_when_the_block_ends_are_left_out(tmp_path, writes):
    def program():
        modules = [torch.nn.Linear(3, 3)]
        run = compiled(lambda x, name: modules[0](x) if name else x)
        many_strings(run, range(20))
        modules.clear()
        torch._dynamo.reset()
        gc.collect()

    run = recorded(tmp_path, program, on="recompile")
    assert (run.warnings, length_of(run.bundles[0])) == ([], 16)
    assert count(here(run.bundles[0]).calls).errors == 0


def test_nothing_of_a_call_that_waits_is_kept_alive(tmp_path, writes):
    gone = []

    def program():
        run = compiled(gained)
        with patched():
            for number in range(20):
                by, x = type("Mine", (Gain,), {})(number), torch.ones(3)
                gone.extend([weakref.ref(x), weakref.ref(by)])
                run(x, by)

    with replay.record(tmp_path, on="recompile"):
        program()
        assert writes[-1] == 16
        gc.collect()
        assert [one() for one in gone] == [None] * len(gone)


def test_the_marks_of_mark_dynamic_are_those_of_each_call(tmp_path):
    def program():
        run = compiled(named)
        for size, name in ((5, "a"), (6, "a"), (7, "b"), (9, "b")):
            x = torch.ones(size)
            torch._dynamo.mark_dynamic(x, 0)
            run(x, name)

    run = recorded(tmp_path, program, on="recompile", calls=True)
    outcome = here(run.bundles[0])
    assert [one.fate for one in outcome.calls] == ["compiled", "hit", "compiled", "hit"]


def test_the_error_of_the_last_call_is_told_as_those_before(tmp_path):
    (path,) = recorded(tmp_path, changing_strings, on="recompile").bundles
    outcome = here(path, recompile_limit=1, fullgraph=True)
    assert [one.error.partition(":")[0] for one in outcome.calls] == ["", *["FailOnRecompileLimitHit"] * 2]


def test_the_time_to_compile_what_follows_a_graph_break_counts(tmp_path):
    def breaking(x, name):
        y = x * 2 if name else x
        torch._dynamo.graph_break()
        return y + 1

    def program():
        run = compiled(breaking)
        for name in "abc":
            run(torch.ones(3), name)

    paths = recorded(tmp_path, program, on="recompile").bundles
    path = next(one for one in paths if not replay.load(one).manifest.frame.resume)
    outcome = here(path)
    assert sum(one.seconds for one in outcome.calls) == pytest.approx(
        sum(one.seconds for one in outcome.frames)
    )


def test_counted_calls_in_inference_mode_are_met_again_with_ordinary_tensors(tmp_path):
    def program():
        run, x = compiled(plus_one), torch.ones(3)
        run(x)
        with torch.inference_mode():
            for _ in range(3):
                run(x)

    run = recorded(tmp_path, program, on="recompile", calls=True)
    outcome = here(run.bundles[0])
    assert [one.fate for one in outcome.calls] == ["compiled", "compiled", "hit"]
