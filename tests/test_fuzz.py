"""A part of the fuzzing of tests/fuzz.py, and files that are worth keeping. What must hold is said there."""

from __future__ import annotations

import io
import random
import time

import pytest
from fuzz import EVIL, KINDS, Finding, campaign, forge, judge, seeds, take_apart
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.bundle import load
from replay.errors import BundleError
from replay.report.sources import draw_source

EACH = 60


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    return [take_apart(path) for path in seeds(folder)], folder


@pytest.fixture(scope="module")
def reference(known):
    with load(known[1] / "seed.rec") as bundle:
        yield bundle


@pytest.mark.parametrize("kind", KINDS)
def test_a_fuzzed_file_is_read_rightly_or_refused(kind, known, reference):
    parts, folder = known
    for number in range(EACH):
        chance = random.Random(f"{kind}/{number}")
        one = chance.choice(parts)
        judge(KINDS[kind](chance, one), kind, folder / "fuzzed.rec", one, reference, number % 10 == 0)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    plain=st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
        max_leaves=20,
    ),
    field=st.sampled_from(
        ["config", "state", "process", "error", "inputs", "tensors", "frame", "calls", "sources"]
    ),
)
def test_any_field_of_a_manifest_may_hold_anything(known, reference, plain, field):
    parts, folder = known
    data = forge(list(parts[0].entries), {**parts[0].manifest, field: plain})
    judge(data, "manifest", folder / "fuzzed.rec", parts[0], reference)


def test_forging_changes_nothing_by_itself(known, reference):
    """A forgery without a change is read; so the refusals of the others are about their changes."""
    parts, folder = known
    for one in parts:
        data = forge(list(one.entries), one.manifest)
        assert judge(data, "manifest", folder / "fuzzed.rec", one, reference) == "read"


def test_the_judge_finds_what_must_not_happen(known, reference, monkeypatch):
    """The tests above can fail: a raised exception, a printed escape and a wrong read are all found."""
    parts, folder = known
    whole = parts[0]
    path = folder / "fuzzed.rec"
    with pytest.raises(Finding, match="read as something else"):
        judge(
            forge(list(whole.entries)[:-1], {**whole.manifest, "storages": {}}),
            "flip",
            path,
            whole,
            reference,
        )
    with monkeypatch.context() as patch:
        patch.setattr("fuzz.draw_inspection", lambda bundle, stream: stream.write(EVIL))
        with pytest.raises(Finding, match="prints"):
            judge(whole.data, "manifest", path, whole, reference)
    with monkeypatch.context() as patch:
        patch.setattr("fuzz.SECONDS", 0.05)
        patch.setattr("fuzz.draw_inspection", lambda bundle, stream: [None for _ in iter(int, 1)])
        with pytest.raises(Finding, match="took more than"):
            judge(whole.data, "manifest", path, whole, reference)
    monkeypatch.setattr("fuzz.draw_inspection", lambda bundle, stream: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        judge(whole.data, "manifest", path, whole, reference)


def test_a_campaign_counts_every_file_and_keeps_what_it_finds(tmp_path, monkeypatch):
    monkeypatch.setattr("fuzz.imports_of", lambda bundle: 1 / 0)
    found = campaign(60, 7, tmp_path, keep=tmp_path / "kept")
    assert sum(found.outcomes.values()) == 60
    assert found.findings
    assert len(list((tmp_path / "kept").iterdir())) == len(found.findings)


def test_a_source_of_nothing_but_control_characters_is_drawn_in_seconds():
    """The hundred thousand found it: 17 million of them took twenty seconds."""
    stream = io.StringIO()
    begun = time.process_time()
    draw_source("\x00" * (4 << 20), stream)
    assert time.process_time() - begun < 2
    assert stream.getvalue()[:8] == "\\x00\\x00"


def manifest_with(one, **changes):
    return forge(list(one.entries), {**one.manifest, **changes})


CORPUS = {
    "a state that is nested too deep": lambda one: manifest_with(one, state=_nested(80)),
    "a key that is a control sequence": lambda one: manifest_with(one, config={"\x1b[2J\x9b": 1}),
    "a name of a source that clears the screen": lambda one: forge(
        [*one.entries, ("source/\x1b[2J.py", b"")], one.manifest
    ),
    "a name that turns around": lambda one: forge([*one.entries, ("source/\u202eyp.exe", b"")], one.manifest),
    "a bomb": lambda one: forge([*one.entries, ("source/bomb.py", bytes(15 << 20))], one.manifest, bomb=True),
    "an array of four thousand million": lambda one: forge(
        list(one.entries), {}, packed=b"\x81\xa6format\xdd\xff\xff\xff\xff"
    ),
    "an endless nest": lambda one: forge(list(one.entries), {}, packed=b"\x91" * 5_000_000),
}
"""Files that found, or would find, a fault; all must be refused."""


def _nested(depth):
    made = None
    for _ in range(depth):
        made = {"a": made}
    return made


@pytest.mark.parametrize("name", ["a key that is a control sequence"])
def test_a_harmless_oddity_of_the_corpus_is_read(name, known, reference):
    parts, folder = known
    assert judge(CORPUS[name](parts[0]), "manifest", folder / "fuzzed.rec", parts[0], reference) == "read"


@pytest.mark.parametrize("name", [name for name in CORPUS if "key" not in name])
def test_a_file_of_the_corpus_is_refused_with_one_line(name, known, reference):
    parts, folder = known
    path = folder / "fuzzed.rec"
    assert judge(CORPUS[name](parts[0]), "manifest", path, parts[0], reference) == "refused"
    with pytest.raises(BundleError) as raised:
        load(path)
    assert "\n" not in str(raised.value)
