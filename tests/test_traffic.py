"""All calls of a frame, counted: hits, what runs uncompiled, in which order, in bounded memory."""

from __future__ import annotations

import collections
import gc
import sys
import threading
import weakref

import pytest
import torch
from programs import here, python, recorded, write

import replay


class Gain:
    def __init__(self, gain):
        self.gain = gain


class Mode(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = "a"

    def forward(self, x):
        return x * 2 if self.mode == "a" else x * 3


def times(x, factor):
    return x * factor


def named(x, name):
    return x * 2 if name else x


def gained(x, by):
    return x * by.gain


def compiled(function, **options):
    return torch.compile(function, backend="eager", **options)


def traffic_of(path):
    with replay.load(path) as bundle:
        bundle.verify()
        return bundle.manifest.sequence.traffic


def counts(traffic):
    """Calls by fate and compile id."""
    found = collections.Counter()
    for kind in traffic.kinds:
        found[kind.fate, kind.compile_id.rpartition("/")[2]] += kind.count
    return dict(found)


def test_calls_are_refused_where_no_sequence_is_recorded(tmp_path):
    with pytest.raises(replay.ReplayError, match='calls are recorded with on="recompile" only'):
        replay.record(tmp_path, calls=True)


def test_hits_are_counted_with_the_code_that_they_found(tmp_path):
    def program():
        run = compiled(named)
        for name in "aab":
            run(torch.ones(3), name)
        for _ in range(5):
            run(torch.ones(3), name="b")
        run(torch.ones(3), "a")

    run = recorded(tmp_path, program, on="recompile", calls=True)
    traffic = traffic_of(run.bundles[0])
    assert counts(traffic) == {("compiled", "0"): 1, ("compiled", "1"): 1, ("hit", "0"): 2, ("hit", "1"): 5}
    order = [(traffic.kinds[kind].fate, count) for kind, count in traffic.runs]
    assert order == [("compiled", 1), ("hit", 1), ("compiled", 1), ("hit", 5), ("hit", 1)]
    tensor = ["tensor", [3], [1], "float32", "cpu", False]
    assert [list(one.positional) for one in traffic.signatures] == [
        [tensor, ["plain", name]]
        for name in "abb"  # by position and by name are two
    ]
    outcome = here(run.bundles[0])
    assert outcome.status == "reproduced"
    assert [one.fate for one in outcome.calls] == ["compiled", "hit", "compiled", "hit", "hit"]


def test_what_runs_uncompiled_after_the_limit_is_told_from_hits(tmp_path):
    def program():
        run = compiled(named)
        for number in (*range(10), 0, 8, 9, 9):
            run(torch.ones(3), f"step {number}")

    run = recorded(tmp_path, program, on="recompile", calls=True)
    found = counts(traffic_of(run.bundles[0]))
    assert found["limit", "8"] == 1
    assert found["uncompiled", ""] == 4
    assert found["hit", "0"] == 1
    outcome = here(run.bundles[0], recompile_limit=20)
    assert collections.Counter(one.fate for one in outcome.calls) == {"compiled": 10, "hit": 3}


def test_hits_of_modules_resume_functions_and_callees_are_counted(tmp_path):
    def callee(x, factor):
        torch._dynamo.graph_break()
        return x * factor

    def outer(x, factor):
        return callee(x + 1, factor) + 1

    def program():
        settings = Mode()
        module, broken = compiled(settings), compiled(outer, dynamic=False)
        for mode in "aabb":
            settings.mode = mode
            module(torch.ones(3))
        for factor in (2, 2, 3, 3, 3):
            broken(torch.ones(3), factor)

    run = recorded(tmp_path, program, on="recompile", calls=True)
    found = {replay.load(path).manifest.frame.name.partition("_at_")[0]: path for path in run.bundles}
    assert counts(traffic_of(found["forward"]))["hit", "0"] == 1
    assert counts(traffic_of(found["forward"]))["hit", "1"] == 1
    resumed = [path for name, path in found.items() if name == "torch_dynamo_resume_in_callee"]
    assert [sum(counts(traffic_of(path)).values()) for path in resumed] == [5]
    assert [counts(traffic_of(path))["hit", "1"] for path in resumed] == [2]


def test_hits_of_all_threads_are_counted(tmp_path):
    def program():
        run = compiled(named)
        run(torch.ones(3), "a")
        run(torch.ones(3), "b")

        def work():
            for _ in range(200):
                run(torch.ones(3), "b")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    run = recorded(tmp_path, program, on="recompile", calls=True)
    assert counts(traffic_of(run.bundles[0]))["hit", "1"] == 800


def test_code_from_before_the_block_is_not_guessed_at(tmp_path):
    torch._dynamo.reset()
    run = compiled(named)
    run(torch.ones(3), "a")
    with replay.record(tmp_path, on="recompile", calls=True) as recorder:
        for name in "aba":
            run(torch.ones(3), name)
    found = counts(traffic_of(recorder.bundles[0]))
    assert found == {("unknown", ""): 2, ("compiled", "1"): 1}


def test_a_decorated_function_counts_over_its_calls(tmp_path):
    torch._dynamo.reset()
    run = compiled(named)
    recorder = replay.record(tmp_path, on="recompile", calls=True)

    @recorder
    def step(name):
        run(torch.ones(3), name)

    for name in "abbbbbbb":
        step(name)
    found = counts(traffic_of(recorder.bundles[0]))
    assert found["compiled", "0"] == found["compiled", "1"] == 1
    assert found["hit", "1"] >= 2  # the file is written again each time that the calls have doubled


def test_counting_leaves_nothing_of_the_programs_alive_and_nothing_patched(tmp_path):
    eval_frame = torch._dynamo.eval_frame
    before, gone = eval_frame._callback_from_stance, []
    torch._dynamo.reset()
    with replay.record(tmp_path, on="recompile", calls=True):
        run = compiled(gained)
        for by in (Gain(1), Gain(2), Gain(2)):
            by.tensor, x = torch.ones(3), torch.ones(3)
            gone.extend([weakref.ref(x), weakref.ref(by.tensor), weakref.ref(by)])
            run(x, by)
            del x, by
        gc.collect()
        assert [one() for one in gone] == [None] * len(gone)
    assert eval_frame._callback_from_stance is before


def test_a_hundred_thousand_calls_take_no_more_memory_than_ten_thousand(tmp_path):
    torch._dynamo.reset()
    run, x = compiled(times, dynamic=True), torch.ones(3)
    with replay.record(tmp_path, on="recompile", calls=True) as recorder:
        run(x, 2.5)
        used = []
        for number in range(100_000):
            run(x, number + 2)
            if number + 1 in (10_000, 100_000):
                gc.collect()
                used.append(sys.getallocatedblocks())
    assert used[1] - used[0] < 1_000  # blocks of Python's allocator
    traffic = traffic_of(recorder.bundles[0])
    assert sum(kind.count for kind in traffic.kinds) == 100_001
    assert len(traffic.signatures) == 64
    assert recorder.bundles[0].stat().st_size < 100_000


def test_the_command_counts_calls_too(tmp_path):
    path = write(
        tmp_path,
        "program.py",
        """
        import torch

        def named(x, name):
            return x * 2 if name else x

        run = torch.compile(named, backend="eager")
        for name in "abbb":
            run(torch.ones(3), name)
        """,
    )
    done = python("-m", "replay", "record", "--on", "recompile", "--calls", "-o", "out", path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (bundle,) = (tmp_path / "out").glob("*.rec")
    assert counts(traffic_of(bundle))["hit", "1"] == 2
    done = python("-m", "replay", "record", "--calls", "-o", "out", path, cwd=tmp_path)
    assert done.returncode == 2
    assert "calls are recorded with" in done.stderr
