"""Whose a bundle is, and what follows: the key, seals, trusted directories, the policy, the question at a terminal."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import hostile
import pytest
from bundles import plain_manifest, write_bundle
from gold import assert_gold
from processes import ROOT, run_at_terminal
from programs import recorded
from specimens import StandIn

import replay
from replay import isolation, trust
from replay.bundle import BundleWriter, load
from replay.cli import main
from replay.errors import ReplayError, UntrustedError, UsageError
from replay.findings.imports import Alarm, Code, Imported, Imports
from replay.report.trust import draw_request
from replay.trust import folder, key, places, policy, seals

posix = pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
as_user = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere, so nothing refuses it"
)
LACKING = isolation.sandbox_lacking()
needs_sandbox = pytest.mark.skipif(bool(LACKING), reason=f"no sandbox here: {LACKING}")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A configuration folder with nothing in it: no key, no trusted directory."""
    monkeypatch.setenv(folder.VARIABLE, str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
def no_sandbox(monkeypatch):
    monkeypatch.setattr(isolation, "sandbox_lacking", lambda: "bubblewrap is not installed")


def write_sealed(directory, stem="x"):
    with BundleWriter(directory, stem, sign=trust.signer()) as writer:
        return writer.commit(plain_manifest())


def standing(path):
    with load(path) as bundle:
        return trust.standing_of(bundle)


# --- the key


@posix
def test_the_key_is_made_once_for_the_user_alone(own):
    first = key.made()
    assert (len(first), key.made(), key.known()) == (key.SIZE, first, first)
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert stat.S_IMODE((own / "key").stat().st_mode) == 0o600
    assert [one.name for one in own.iterdir()] == ["key"]


def test_many_that_make_a_key_at_once_get_the_same(own):
    found, start = [], threading.Barrier(8)

    def work():
        start.wait()
        found.append(key.made())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [key.known()] * 8


def test_processes_that_make_a_key_at_once_get_the_same(own):
    code = "import sys; from replay.trust import key; sys.stdin.read(); sys.stdout.write(key.made().hex())"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    started = [subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment) for _ in range(3)]
    for one in started:
        one.stdin.close()
    assert {one.stdout.read().decode() for one in started} == {key.known().hex()}
    for one in started:
        one.stdout.close()
        one.wait()


def test_without_hard_links_the_key_is_made_all_the_same(own, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    assert key.made() == key.known()


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_that_others_could_read_is_none_and_the_message_says_so(own, tmp_path, mode):
    path = write_sealed(tmp_path)
    assert standing(path).kind == "own"
    (own / "key").chmod(mode)
    with pytest.raises(ReplayError, match=rf"key: others may .*mode {mode:04o}.*until you remove the key"):
        key.made()
    found = standing(path)
    assert (found.kind, len(found.notes)) == ("sealed", 1)
    assert trust.signer() is None
    (own / "key").chmod(0o600)
    own.chmod(0o777)
    assert standing(path).kind == "sealed"


def test_a_damaged_key_is_refused(own):
    own.mkdir(mode=0o700)
    folder.write("key", b"short", replace=True)
    with pytest.raises(ReplayError, match="it is no key of replay; remove it"):
        key.known()


@posix
def test_somebody_elses_folder_is_refused(own, monkeypatch):
    key.made()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ReplayError, match="it belongs to somebody else"):
        key.known()


# --- seals


def test_what_this_user_records_is_their_own_also_under_another_name(own, tmp_path):
    path = write_sealed(tmp_path)
    assert standing(path) == trust.Standing("own", "recorded by you, with the seal of your own key")
    moved = tmp_path / "moved.rec.zip"
    path.rename(moved)
    assert standing(moved).trusted


def test_a_recording_is_sealed_and_is_replayed_at_once(own, tmp_path, no_sandbox):
    (bundle,) = recorded(tmp_path / "made", fails).bundles
    assert standing(bundle).kind == "own"
    assert not trust.admit(load(bundle)).sandboxed


def fails():
    import torch

    def broken(gm, inputs):
        raise ValueError("no such thing")

    torch.compile(lambda x: x + 1, backend=broken)(torch.ones(2))


def test_what_is_made_from_the_users_own_bundle_is_sealed_and_nothing_else(own, tmp_path):
    for source, kind in ((write_sealed, "own"), (write_bundle, "unsealed")):
        with load(source(tmp_path / kind)) as bundle:
            sign = trust.successor_signer(bundle)
            with BundleWriter(tmp_path / kind, "made-from-it", sign=sign) as writer:
                made = writer.commit(plain_manifest(config={}))
        assert standing(made).kind == kind


def test_a_recording_that_is_completed_later_stays_the_users_own(own, tmp_path):
    (bundle,) = recorded(tmp_path / "made", recompiles, on="recompile", calls=True).bundles
    with load(bundle) as opened:
        assert opened.manifest.sequence.traffic is not None
    assert standing(bundle).kind == "own"


def recompiles():
    import torch

    compiled = torch.compile(lambda x, n: x + n, backend="eager", dynamic=False)
    for number in range(2):
        for _ in range(3):
            compiled(torch.ones(2), number)


@pytest.mark.parametrize("part", ["manifest", "values"])
def test_another_manifest_under_the_same_seal_is_not_the_users(own, tmp_path, part):
    with load(write_sealed(tmp_path)) as bundle:
        seal = bundle.seal
    with BundleWriter(tmp_path, "forged", sign=lambda digest: seal) as writer:
        if part == "values":
            writer.add_values(b"\x80\x04N.")
        forged = writer.commit(
            plain_manifest(config={} if part == "manifest" else {"dynamo.cache_size_limit": 1})
        )
    found = standing(forged)
    assert (found.kind, found.trusted) == ("sealed", False)


def test_another_users_seal_is_not_the_users(own, tmp_path, monkeypatch):
    path = write_sealed(tmp_path)
    monkeypatch.setenv(folder.VARIABLE, str(tmp_path / "another"))
    assert standing(path).kind == "sealed"
    key.made()
    assert standing(path).said == "recorded by somebody else, or on another machine"


def test_without_a_seal_nobody_vouches(own, tmp_path):
    assert standing(write_bundle(tmp_path)).kind == "unsealed"


def test_where_no_key_can_be_made_recording_goes_on_unsealed(own, tmp_path, caplog):
    own.write_text("a file stands where the folder should be")
    with caplog.at_level("INFO", "replay"):
        path = write_sealed(tmp_path / "made")
    assert "not sealed as your own" in caplog.text
    assert standing(path).kind == "unsealed"
    with pytest.raises(ReplayError):
        trust.vouch_for(tmp_path)


@as_user
def test_a_home_that_cannot_be_written_leaves_the_recording_unsealed(own, tmp_path):
    own.mkdir(mode=0o500)
    assert trust.signer() is None


# --- trusted directories


def test_a_directory_is_trusted_with_all_below_it_until_it_is_forgotten(own, tmp_path):
    path = write_bundle(tmp_path / "some" / "where")
    assert trust.vouch_for(tmp_path / "some")
    assert not trust.vouch_for(tmp_path / "some" / ".." / "some")
    found = standing(path)
    assert (found.kind, found.said) == ("place", f"in {tmp_path / 'some'}, which you trust")
    assert trust.trusted_places() == (trust.Place(tmp_path / "some", True),)
    trust.forget(tmp_path / "some")
    assert not standing(path).trusted
    with pytest.raises(UsageError, match="it was not trusted"):
        trust.forget(tmp_path / "some")


def test_a_link_in_a_trusted_directory_leads_out_of_it(own, tmp_path):
    path = write_bundle(tmp_path / "elsewhere")
    (tmp_path / "some").mkdir()
    trust.vouch_for(tmp_path / "some")
    link = tmp_path / "some" / "x.rec"
    link.symlink_to(path)
    assert not standing(link).trusted
    assert not standing(tmp_path / "some" / ".." / "elsewhere" / path.name).trusted


@posix
def test_a_directory_for_everybody_is_not_trusted(own, tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(UsageError, match="everybody may put bundles there"):
        trust.vouch_for(tmp_path / "open")
    with pytest.raises(UsageError, match="is no directory"):
        trust.vouch_for(tmp_path / "none")


@posix
@pytest.mark.parametrize("spoil", ["permissions", "text", "shape"])
def test_a_list_that_is_not_as_it_was_written_trusts_nothing(own, tmp_path, spoil):
    path = write_bundle(tmp_path / "some")
    trust.vouch_for(tmp_path / "some")
    if spoil == "permissions":
        (own / places.NAME).chmod(0o666)
    else:
        (own / places.NAME).write_text('{"a": 1}' if spoil == "shape" else "[")
    found = standing(path)
    assert (found.trusted, len(found.notes)) == (False, 1)


# --- the policy


@pytest.mark.parametrize(
    ("given", "trusted", "expected"),
    [
        ({}, True, False),
        ({}, False, True),
        ({"trust": True}, False, False),
        ({"trust": False}, False, True),
        ({"sandbox": True}, True, True),
        ({"sandbox": True, "trust": True}, False, True),
        ({"sandbox": False}, True, False),
        ({"sandbox": False, "trust": True}, False, False),
        ({"isolate": False}, True, False),
        ({"isolate": False, "trust": True}, False, False),
        ({"sandbox": False}, False, UntrustedError),
        ({"isolate": False}, False, UntrustedError),
        ({"isolate": False, "sandbox": True}, True, UsageError),
    ],
)
def test_the_policy(own, tmp_path, monkeypatch, given, trusted, expected):
    monkeypatch.setattr(isolation, "sandbox_lacking", lambda: "")
    with load(write_sealed(tmp_path) if trusted else write_bundle(tmp_path)) as bundle:
        if isinstance(expected, bool):
            assert trust.admit(bundle, **given).sandboxed is expected
        else:
            with pytest.raises(expected):
                trust.admit(bundle, **given)


def test_without_a_sandbox_an_untrusted_bundle_is_refused_and_the_message_says_what_to_do(
    own, tmp_path, no_sandbox
):
    path = write_bundle(tmp_path)
    with pytest.raises(UntrustedError) as refused:
        replay.run(path)
    message = str(refused.value)
    assert f"python -m replay inspect {path}" in message
    assert "--trust" in message and "bubblewrap is not installed" in message
    with load(path) as bundle, pytest.raises(UsageError, match="--sandbox: bubblewrap is not installed"):
        policy.admit(bundle, sandbox=True)


ANALYSES = {
    "triage": replay.triage,
    "explain": replay.explain,
    "profile": replay.profile,
    "ablate": replay.ablate,
    "run": replay.run,
    "in this process": lambda path: replay.run(path, isolate=False),
}


@pytest.mark.parametrize("analysis", ANALYSES.values(), ids=ANALYSES)
def test_no_analysis_runs_an_untrusted_bundle(own, tmp_path, no_sandbox, analysis):
    path = hostile.write_hostile(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(UntrustedError):
        analysis(path)
    assert not (tmp_path / "ran").exists()


def test_a_file_that_is_changed_after_it_was_admitted_is_not_replayed(own, tmp_path):
    path = write_sealed(tmp_path)
    other = hostile.write_hostile(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')")
    with load(path) as bundle:
        assert not trust.admit(bundle).sandboxed
        os.replace(other, path)
        with pytest.raises(ReplayError, match="the file was changed meanwhile"):
            replay.run(bundle)
    assert not (tmp_path / "ran").exists()


# --- the command line


def test_in_a_pipe_an_untrusted_bundle_is_refused_with_exit_code_2(own, tmp_path, no_sandbox, capsys):
    path = write_bundle(tmp_path)
    for verb in (
        ["replay"],
        ["triage"],
        ["explain"],
        ["profile"],
        ["replay", "--ablate"],
        ["replay", "--pdb"],
    ):
        assert main([*verb, str(path)]) == 2
        shown = capsys.readouterr()
        assert (shown.out, "Traceback" in shown.err) == ("", False)
        assert f"python -m replay inspect {path}" in shown.err
        assert "--trust" in shown.err


def test_inspect_says_who_vouches_and_runs_nothing(own, tmp_path, capsys):
    assert main(["inspect", str(write_sealed(tmp_path))]) == 0
    assert "recorded by you, with the seal of your own key: it is replayed at once" in capsys.readouterr().out
    assert main(["inspect", str(write_bundle(tmp_path, "other")), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["trust"] == {
        "trusted": False,
        "kind": "unsealed",
        "said": "from nobody that is known here: it has no seal",
        "notes": [],
    }


def test_the_verb_trusts_lists_and_forgets(own, tmp_path, capsys):
    (tmp_path / "some").mkdir()
    assert main(["trust", str(tmp_path / "some")]) == 0
    assert capsys.readouterr().err == f"replay: trusted from now on: {tmp_path / 'some'}\n"
    assert main(["trust", str(tmp_path / "some")]) == 0
    assert "trusted already" in capsys.readouterr().err
    assert main(["trust", "--list"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'some'}\n"
    (tmp_path / "some").rmdir()
    assert main(["trust", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "places": [{"path": str(tmp_path / "some"), "there": False}]
    }
    assert main(["trust", "--forget", str(tmp_path / "some")]) == 0
    assert main(["trust", "--list"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err.splitlines()[-1]) == ("", "replay: no directory is trusted")
    assert main(["trust"]) == main(["trust", "--forget"]) == main(["trust", str(tmp_path / "none")]) == 2


# --- at a terminal

at_terminal = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX's")


def ask(tmp_path, word, *options):
    """The hostile bundle at a pseudo-terminal, and one word typed at the question."""
    path = hostile.write_hostile(
        tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w'); import os; os._exit(3)", stem="a bundle"
    )
    words = ["-m", "replay", str(path), "--no-sandbox", *options]
    code, shown = run_at_terminal(tmp_path, words, "[y/N] ", [word])
    return code, shown, (tmp_path / "ran").exists()


@at_terminal
def test_yes_at_a_terminal_replays_this_once(own, tmp_path):
    code, shown, ran = ask(tmp_path, "y")
    assert (code, ran) == (2, True)
    assert "ended (crashed: exit code 3)" in shown
    assert not standing(tmp_path / "a bundle.rec").trusted


@at_terminal
@pytest.mark.parametrize(
    "word", ["n", "", "Yep", "\x04"], ids=["no", "nothing", "another word", "end of input"]
)
def test_anything_but_yes_at_a_terminal_replays_nothing(own, tmp_path, word):
    code, shown, ran = ask(tmp_path, word)
    assert (code, ran) == (2, False)
    assert "a bundle.rec: not replayed" in shown
    assert "Traceback" not in shown
    for said in (
        "Nobody vouches for this bundle",
        "from nobody that is known here: it has no seal",
        "builtins.ValueError in forward: no",
        "2025-11-20T12:00:00Z by torch-replay 0.1.0",
        "builtins",
        "you asked for no sandbox",
        f"python -m replay inspect '{tmp_path}/a bundle.rec'",
    ):
        assert said in " ".join(shown.split()) or said in shown


@at_terminal
def test_trust_at_a_terminal_asks_nothing(own, tmp_path):
    code, shown, ran = ask(tmp_path, "n", "--trust")
    assert (code, ran, "[y/N]" in shown) == (2, True, False)


@at_terminal
@needs_sandbox
def test_with_a_sandbox_a_terminal_is_asked_nothing_and_nothing_comes_out(own, tmp_path):
    path = hostile.write_hostile(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')")
    code, shown = run_at_terminal(tmp_path, ["-m", "replay", str(path)], "[y/N] ", ["y"])
    assert (code, "[y/N]" in shown, (tmp_path / "ran").exists()) == (2, False, False), shown


# --- the folder


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the place on Linux")
def test_the_folder_is_where_the_platform_keeps_configuration(monkeypatch, tmp_path):
    monkeypatch.delenv(folder.VARIABLE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert folder.path() == tmp_path / "torch-replay"


def test_no_test_sees_the_users_own_folder():
    assert Path(os.environ[folder.VARIABLE]).name.startswith("replay-tests-config-")
    assert seals.key.folder.path() == Path(os.environ[folder.VARIABLE])


# --- what a person is shown


def draw(bundle, found, standing):
    stream = io.StringIO()
    draw_request(bundle, standing, found, stream, lacking="bubblewrap is not installed")
    return stream.getvalue()


UNKNOWN = trust.Standing(
    "unsealed", "from nobody that is known here: it has no seal", ("key: others may read it",)
)


def test_the_summary_looks_as_the_gold_file(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    found = Imports(
        bundle="x.rec",
        size=4000,
        names=(
            Imported("os", "system", "standard library", 1, "run commands"),
            Imported("replay.shipping.functions", "make_function", "replay", 3),
            Imported("torch.nn.modules.linear", "Linear", "torch", 0),
            Imported("einops", "rearrange", "other", 0),
        ),
        alarms=tuple(Alarm(f"calls os.system('id {n}')", "it can run commands", n) for n in range(7)),
        code=(Code("/home/ann/model.py", ("forward", "squash"), "source"), Code("", ("hidden",), "bytecode")),
        unread="byte 12 is no opcode",
    )
    assert_gold("trust_request.txt", draw(StandIn(), found, UNKNOWN))


def test_the_summary_cannot_steer_a_terminal():
    evil = "a\x1b[31mred\x07\u202e\ncd"
    frame = replace(StandIn().manifest.frame, function=evil, file=evil)
    error = replace(StandIn().manifest.error, type=evil, message=evil)
    bundle = StandIn(path=evil, manifest=replace(StandIn().manifest, frame=frame, error=error, writer=evil))
    found = Imports(evil, 1, (Imported(evil, evil, "other", 1),), (Alarm(evil, evil, 0),), (), unread=evil)
    shown = draw(bundle, found, trust.Standing("sealed", evil, (evil,)))
    assert not {c for c in shown if not c.isprintable()} - {"\n"}
