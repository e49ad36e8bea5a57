"""Many replays of one bundle: every one gets an answer."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import replay
from replay import isolation
from replay.replayer import Trial, Trials, trials

RECORDINGS = Path(__file__).parent.parent / "recordings"

ASKED = [
    Trial({"backend": "eager"}),
    Trial({"backend": "uncompiled"}),
    Trial({"backend": "no_such_backend"}),
    Trial({"backend": "eager", "env": {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}}),
    Trial({"backend": "aot_eager", "config": {"dynamo.no_such_key": 1}}),
]


@pytest.fixture(scope="module")
def told():
    heard = []
    with replay.load(RECORDINGS / "dynamo_shape_mismatch.rec") as bundle, Trials(bundle, jobs=2) as going:
        done = going.run(ASKED, lambda at, trial: heard.append((at, trial)))
    return done, heard


def test_results_come_in_the_order_of_the_questions_with_their_outcomes(told):
    done, _ = told
    assert [one.options for one in done] == [one.options for one in ASKED]
    assert [one.outcome and one.outcome.status for one in done] == [
        "reproduced",
        "different",
        None,
        "reproduced",
        None,
    ]


def test_what_cannot_be_run_is_an_answer_and_no_exception(told):
    done, _ = told
    assert "no such backend" in done[2].refused
    assert "no_such_key" in done[4].refused


def test_each_trial_is_told_once_as_it_ends(told):
    done, heard = told
    assert sorted(at for at, _ in heard) == [0, 1, 2, 3, 4]
    assert all(done[at] is trial for at, trial in heard)


@pytest.mark.parametrize(
    ("recording", "statuses"),
    [
        ("dynamo_shape_mismatch.rec", ["reproduced", "different"]),
        ("aot_wrong_backward.rec", ["passed", "passed"]),  # reaches a backend: Inductor is imported before
    ],
)
def test_trials_are_forked_from_one_process_that_imported_torch(recording, statuses, monkeypatch):
    """In forks torch is there already, so that loading a frame takes no import."""
    fresh = []
    real = isolation.call
    monkeypatch.setattr(isolation.forks.fresh, "call", lambda *a, **k: fresh.append(a) or real(*a, **k))
    with replay.load(RECORDINGS / recording) as bundle, Trials(bundle, jobs=1) as going:
        done = going.run(ASKED[:2])
    assert [one.outcome.status for one in done] == statuses
    assert bool(fresh) is not isolation.forks.AVAILABLE


def test_leaving_the_trials_ends_what_still_runs(monkeypatch):
    begun = threading.Event()

    def call(*_, stop, **__):
        begun.set()
        assert stop.wait(30), "nobody ended the child"
        return isolation.ChildResult("stopped", None, "", "run", "", 0.0)

    monkeypatch.setattr(isolation, "call", call)
    started = time.monotonic()
    futures = []

    def interrupted(bundle):
        with Trials(bundle, jobs=1, fresh=True) as going:
            futures.append(going.submit(Trial({"backend": "eager"})))
            assert begun.wait(10)
            raise KeyboardInterrupt

    with replay.load(RECORDINGS / "run_time_index.rec") as bundle, pytest.raises(KeyboardInterrupt):
        interrupted(bundle)
    assert "given up" in futures[0].result().refused
    assert time.monotonic() - started < 20


def test_large_values_leave_room_for_fewer_trials_at_a_time(monkeypatch):
    with replay.load(RECORDINGS / "run_time_index.rec") as bundle:
        monkeypatch.setattr(trials, "processors", lambda: 64)
        monkeypatch.setattr(isolation, "memory_limit", lambda: 3 * trials.TORCH + 10_000_000)
        with Trials(bundle) as going:
            assert going.jobs == 3
        monkeypatch.setattr(isolation, "memory_limit", lambda: 1)
        with Trials(bundle) as going:
            assert going.jobs == 1
