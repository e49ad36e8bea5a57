"""Graph breaks, recompilations and every compiled frame: what makes a bundle, and that a replay meets it again."""

from __future__ import annotations

import pytest
import torch
from programs import here, no_relu, recorded

import replay
from replay.cli import record as verb
from replay.recorder import happenings


def breaking(x, factor):
    x = x * 2
    torch._dynamo.graph_break()
    if x.sum() > 0:
        x = x * factor
    return x + 1


def scaled(x, factor):
    return x * factor


def run_breaking():
    torch.compile(breaking, backend="eager")(torch.ones(3), 3)


def run_recompiling():
    compiled = torch.compile(scaled, backend="eager")
    for size in (2, 3, 4):
        compiled(torch.ones(size), 2.5)
    compiled(torch.ones(2, 2), 2.5)


def manifests(run):
    return [replay.load(path).manifest for path in run.bundles]


def test_each_distinct_graph_break_makes_a_bundle(tmp_path):
    run = recorded(tmp_path, run_breaking, on="graph_break")
    found = manifests(run)
    assert run.error is None
    assert {(one.event, one.error.stage) for one in found} == {("graph_break", "graph_break")}
    lines = [one.error.user_frames[-1].code for one in found]
    assert lines == ["torch._dynamo.graph_break()", "if x.sum() > 0:"]
    assert len({one.error.fingerprint for one in found}) == 2


def test_a_graph_break_is_met_again_and_its_text(tmp_path):
    for path in recorded(tmp_path, run_breaking, on="graph_break").bundles:
        outcome = here(path)
        assert outcome.status == "reproduced"
        assert outcome.error.message == outcome.recorded_error.message


def test_a_graph_break_makes_no_bundle_unasked(tmp_path):
    assert recorded(tmp_path, run_breaking).bundles == []


def test_a_graph_break_under_fullgraph_is_an_error_and_another_one(tmp_path):
    path = recorded(tmp_path, run_breaking, on="graph_break").bundles[0]
    assert here(path, fullgraph=True).status == "different"


def test_a_frame_that_is_compiled_again_and_again_makes_one_bundle(tmp_path):
    (found,) = manifests(recorded(tmp_path, run_recompiling, on="recompile"))
    assert (found.event, found.error) == ("recompile", None)
    calls = [*found.calls, found.sequence.last]
    assert [one.compile_id.rpartition("/")[2] for one in calls] == ["0", "1", "2"]
    assert calls[0].reasons == ()
    assert "size mismatch at index 0. expected 2, actual 3" in calls[1].reasons[0]
    assert [one.partition(": ")[0] for one in calls[2].reasons] == ["0/1", "0/0"]
    assert "rank mismatch" in found.reason == calls[2].reasons[0]
    assert (calls[0].fingerprint, calls[2].fingerprint) == ("", found.signature)


def test_a_recompilation_is_met_again_with_its_reason(tmp_path):
    run = recorded(tmp_path, run_recompiling, on="recompile")
    outcome = here(run.bundles[0])
    assert (outcome.status, [one.fate for one in outcome.calls]) == ("reproduced", ["compiled"] * 3)
    assert outcome.reason.partition(": ")[2] == run.manifest.reason.partition(": ")[2]


def test_a_recompilation_that_a_setting_avoids_is_passed(tmp_path):
    path = recorded(tmp_path, run_recompiling, on="recompile").bundles[0]
    outcome = here(path, dynamic=True)
    assert (outcome.status, outcome.reason) == ("passed", "")
    assert [one.fate for one in outcome.calls] == ["compiled", "hit", "compiled"]


def test_all_records_every_compiled_frame_once(tmp_path):
    def program():
        compiled = torch.compile(scaled, backend="eager")
        for _ in range(3):
            compiled(torch.ones(2), 2.5)
        run_breaking()

    found = manifests(recorded(tmp_path, program, on="all"))
    assert [(one.frame.name.partition("_at_")[0], one.event) for one in found] == [
        ("scaled", "success"),
        ("breaking", "graph_break"),
        ("torch_dynamo_resume_in_breaking", "graph_break"),
        ("torch_dynamo_resume_in_breaking", "success"),
    ]


def test_all_records_failures_as_failures(tmp_path):
    def program():
        torch.compile(lambda x: x.relu(), backend=no_relu)(torch.ones(2))

    run = recorded(tmp_path, program, on="all")
    assert [one.event for one in manifests(run)] == ["failure"]
    assert "replay: recorded" in run.error.__notes__[0]


def test_a_success_passes(tmp_path):
    run = recorded(tmp_path, lambda: torch.compile(scaled, backend="eager")(torch.ones(2), 2.5), on="all")
    assert run.bundles[0].name == "scaled-success.rec"
    outcome = here(run.bundles[0])
    assert (outcome.status, outcome.error, outcome.recorded_error) == ("passed", None, None)


def test_several_events_may_be_asked_for(tmp_path):
    def program():
        run_breaking()
        run_recompiling()

    found = manifests(recorded(tmp_path, program, on=("graph_break", "recompile")))
    assert {one.event for one in found} == {"graph_break", "recompile"}


def test_where_a_bundle_is_of_an_event_that_raises_nothing_is_logged(tmp_path, caplog):
    run = recorded(tmp_path, run_recompiling, on="recompile")
    assert [str(path) in caplog.text for path in run.bundles] == [True]


def test_the_command_offers_the_recorders_events():
    assert verb.EVENTS == happenings.EVENTS


@pytest.mark.parametrize("on", ["success", "crash", ""])
def test_a_word_that_is_no_event_is_refused(on, tmp_path):
    with pytest.raises(replay.ReplayError, match="must be one of failure, graph_break"):
        replay.record(tmp_path, on=on)


class Settings:
    scale = 1


def test_what_an_earlier_call_saw_of_globals_objects_and_closures_is_seen_again(tmp_path):
    settings, listed, named = Settings(), [1, 2], {"p": 1}

    def shadowed(x):
        return x * settings.scale

    def length(x):
        return x * len(listed)

    def value(x):
        return x * named["p"]

    def program():
        functions = [torch.compile(one, backend="eager") for one in (shadowed, length, value)]
        for one in functions:
            one(torch.ones(2))
        settings.scale = 2
        listed.append(3)
        named["p"] = 5
        for one in functions:
            one(torch.ones(2))

    run = recorded(tmp_path, program, on="recompile")
    assert [here(path).status for path in run.bundles] == ["reproduced"] * 3
    assert (settings.scale, listed, named) == (2, [1, 2, 3], {"p": 5})


def test_a_recompilation_that_did_not_come_says_what_was_recorded(tmp_path, capsys):
    from replay.report.verdict import draw_verdict

    path = recorded(tmp_path, run_recompiling, on="recompile").bundles[0]
    import sys

    draw_verdict(here(path, dynamic=True), sys.stdout)
    assert "recorded: compiled again: 0/1: tensor 'x' rank mismatch" in capsys.readouterr().out


def test_a_pass_over_made_up_values_says_so(tmp_path):
    def program():
        def check(graph, example_inputs):
            def run(*inputs):
                if any(bool(one.isnan().any()) for one in inputs):
                    raise ValueError("NaN")
                return graph.forward(*inputs)

            return run

        x = torch.full((200_000,), float("nan"))
        torch.compile(lambda x: x * 2, backend=check)(x)

    with pytest.raises(ValueError, match="NaN"), replay.record(tmp_path, tensors="metadata") as recorder:
        program()
    outcome = here(recorder.bundles[0])
    assert outcome.status == "passed"
    assert any("made-up values (0.8 MB)" in note for note in outcome.notes)


def test_fake_tensors_prove_nothing_about_a_failure_of_running_code(tmp_path):
    def program():
        torch.compile(lambda x, i: x[i], backend="aot_eager")(torch.ones(3), torch.tensor([7]))

    with pytest.raises(IndexError), replay.record(tmp_path) as recorder:
        program()
    outcome = here(recorder.bundles[0], fake=True)
    assert (outcome.status, outcome.missing[0].name) == ("missing", "a run")
