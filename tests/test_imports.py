"""`inspect --imports`: what loading values would do, told from their opcodes; nothing of it happens."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bundles import plain_manifest
from click.testing import CliRunner
from gold import assert_gold

from replay import opcodes, shipping
from replay.bundle import BundleWriter, load
from replay.cli.application import application
from replay.contents.imports import imports_in, imports_of
from replay.report.imports import draw_imports

ROOT = Path(__file__).parent.parent
RECORDINGS = sorted((ROOT / "recordings").glob("*.rec"))


class Calls:
    """Pickles as the call of a function."""

    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


def text(word):
    data = word.encode()
    return b"\x8c" + bytes([len(data)]) + data


def stack_global(module, name):
    return text(module) + text(name) + b"\x93"


def found_in(values, shipped=()):
    return imports_in(values, shipped, "x.rec")


def alarms(values):
    return [f"{alarm.what}: {alarm.why}" for alarm in found_in(values).alarms]


def bundle_of(folder, values, stem="x", **changes):
    with BundleWriter(folder, stem) as writer:
        writer.add_values(values)
        return writer.commit(plain_manifest(**changes))


def drawn(found):
    stream = io.StringIO()
    draw_imports(found, stream)
    return stream.getvalue()


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_real_recording_raises_no_alarm_and_is_read_to_its_end(path):
    with load(path) as bundle:
        found = imports_of(bundle)
    assert found.alarms == ()
    assert found.unread == ""
    assert found.more == 0
    assert [one for one in found.names if one.group == "replay" and one.called]


def test_no_kind_of_object_that_the_writer_ships_raises_an_alarm(tmp_path):
    target = tmp_path / "plain.pkl"
    words = [sys.executable, "cargo_dump.py", "plain", str(target)]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run(words, cwd=ROOT / "tests", env=environment, check=True, timeout=120, capture_output=True)
    cases = pickle.loads(target.read_bytes())
    assert len(cases) > 30
    for name, case in cases.items():
        found = found_in(case["values"], case["modules"])
        assert (found.alarms, found.unread) == ((), ""), name


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (Calls(os.system, "true"), r"posix.system('true'): it can run commands"),
        (Calls(eval, "1 + 1"), r"builtins.eval('1 + 1'): it can run any code"),
        (Calls(subprocess.Popen, ["true"]), r"subprocess.Popen(...): it can run commands"),
        (Calls(__import__, "antigravity"), r"builtins.__import__('antigravity'): it can run any code"),
        (Calls(open, "/etc/passwd"), "open('/etc/passwd'): it can read or change files"),
    ],
    ids=["system", "eval", "popen", "import", "open"],
)
def test_a_call_that_the_writer_does_not_write_is_an_alarm_in_every_protocol(call, expected, protocol):
    [alarm] = alarms(pickle.dumps([call], protocol))
    assert expected in alarm


def test_nothing_of_it_is_run(tmp_path):
    target = tmp_path / "touched"
    values = pickle.dumps(Calls(os.system, f"touch {target}"))
    found = found_in(values)
    assert len(found.alarms) == 1
    assert not target.exists()
    pickle.loads(values)
    assert target.exists(), "the specimen would have run it"


HIDDEN = {
    "through the memo": text("os")
    + b"\x94"
    + text("system")
    + b"\x940h\x00h\x01\x93"
    + text("id")
    + b"\x85R",
    "put out of order": text("os") + b"q\x07" + text("system") + b"\x93" + text("id") + b"\x85R",
    "by a name with dots": stack_global("torch", "os.system") + text("id") + b"\x85R",
    "as an old instance": b"(" + text("id") + b"iposix\nsystem\n",
    "as an object": b"(" + stack_global("os", "system") + text("id") + b"o",
    "in a second pickle": b"N.\x80\x04" + stack_global("os", "system") + text("id") + b"\x85R",
    "through dup": stack_global("os", "system") + b"2" + text("id") + b"\x85R",
    "by Python 2's name": b"\x80\x02c__builtin__\neval\nU\x01x\x85R",
    "as a class": stack_global("subprocess", "Popen") + text("id") + b"\x85\x81",
    "as a class with keywords": stack_global("subprocess", "Popen") + text("id") + b"\x85}\x92",
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_call_is_found_however_it_is_written(name):
    values = b"\x80\x04" + HIDDEN[name] + b"."
    found = [alarm for alarm in alarms(values) if "it can run" in alarm]
    assert len(found) == 1, found


BUILT = {
    "rebuild": shipping.dump({"x": 1}, tensors=None).values
    and (
        stack_global("replay.shipping.others", "rebuild")
        + stack_global("os", "system")
        + text("id")
        + b"\x85\x86R",
        "calls os.system('id'): it can run commands",
    ),
    "a room that is not there": (
        stack_global("replay.shipping.elsewhere", "rebuild")
        + stack_global("os", "system")
        + text("id")
        + b"\x85\x86R",
        "calls os.system('id'): it can run commands",
    ),
    "rebuild of getattr": (
        stack_global("replay.shipping.others", "rebuild")
        + stack_global("builtins", "getattr")
        + stack_global("replay.shipping.modules", "import_real")
        + text("os")
        + b"\x85R"
        + text("system")
        + b"\x86\x86R",
        "it can run commands",
    ),
    "a dill that evaluates": (
        stack_global("replay.shipping.by_dill", "make_by_dill") + b"C" + bytes([0]) + b"\x85R",
        "",
    ),
    "a changed module": (
        stack_global("replay.shipping.modules", "import_real") + text("os") + b"\x85R" + b"}b",
        "changes the module os",
    ),
    "the globals of a module": (
        stack_global("replay.shipping.modules", "real_globals")
        + text("json")
        + b"\x85R"
        + text("loads")
        + b"Ns",
        "changes the module json",
    ),
    "a changed class": (stack_global("torch", "Tensor") + b"}b", "changes torch.Tensor"),
    "a builder that changes a class": (
        stack_global("replay.shipping.plain", "fill_plain") + stack_global("torch", "Tensor") + b"N\x86R",
        "changes torch.Tensor",
    ),
    "a part of replay": (
        stack_global("replay.script", "run") + text("x.py") + b"\x85R",
        "a part of replay that builds no values",
    ),
    "a function of torch": (
        stack_global("torch.nn.functional", "relu") + text("x") + b"\x85R",
        "leaves such calls to its builder",
    ),
    "a computed name": (
        stack_global("builtins", "str")
        + text("os")
        + b"\x85R"
        + text("system")
        + b"\x93"
        + text("id")
        + b"\x85R",
        "a name that is computed while loading",
    ),
    "a computed function": (
        stack_global("functools", "partial") + stack_global("builtins", "len") + b"\x85R" + b")R",
        "calls what functools.partial returned",
    ),
    "classes of classes": (
        stack_global("builtins", "getattr")
        + stack_global("builtins", "object")
        + text("__subclasses__")
        + b"\x86R)R",
        "it can reach any attribute",
    ),
    "a computed module": (
        stack_global("replay.shipping.modules", "import_real") + stack_global("builtins", "str") + b")R\x85R",
        "its name is computed while loading",
    ),
    "a persistent id": (b"Pabc\n", "a persistent id"),
    "an extension": (b"\x82\x05", "number 5 in the extension registry"),
    "nested bytes of dill": (
        stack_global("replay.shipping.by_dill", "make_by_dill")
        + b"B"
        + struct.pack("<I", len(pickle.dumps(Calls(os.system, "id"))))
        + pickle.dumps(Calls(os.system, "id"))
        + b"\x85R",
        "posix.system('id')",
    ),
}


@pytest.mark.parametrize("name", BUILT)
def test_what_replays_builders_are_made_to_do_is_told(name):
    values, expected = BUILT[name]
    found = alarms(b"\x80\x04" + values + b".")
    assert any(expected in alarm for alarm in found) if expected else found == []


def test_dill_evaluates_a_text_only_with_an_alarm():
    def nested(description):
        inner = (
            stack_global("dill._dill", "_getattr")
            + stack_global("dill._dill", "_load_type")
            + text("dict")
            + b"\x85R"
            + text("fromkeys")
            + text(description)
            + b"\x87R."
        )
        inner = b"\x80\x04" + inner
        outer = stack_global("replay.shipping.by_dill", "make_by_dill")
        return b"\x80\x04" + outer + b"B" + struct.pack("<I", len(inner)) + inner + b"\x85R."

    assert alarms(nested("<method 'fromkeys' of 'dict' objects>")) == []
    [alarm] = alarms(nested("<method 'x' of '__import__(\"os\")' objects>"))
    assert "dill evaluates a text in it" in alarm


def test_what_the_users_program_only_names_is_listed_without_an_alarm():
    values = shipping.dump({"run": subprocess.run, "walk": os.walk}, tensors=None).values
    found = found_in(values)
    assert found.alarms == ()
    powers = {one.full_name: one.power for one in found.names}
    assert powers["subprocess.run"] == "run commands"
    assert "read or change files" in powers["os.walk"]


def test_names_are_grouped_by_whose_they_are():
    values = (
        b"\x80\x04"
        + b"".join(
            stack_global(*pair)
            for pair in [
                ("torch.nn", "Linear"),
                ("json", "loads"),
                ("nets.model", "x"),
                ("einops", "rearrange"),
            ]
        )
        + b"."
    )
    groups = {one.full_name: one.group for one in found_in(values, ["nets"]).names}
    assert groups == {
        "torch.nn.Linear": "torch",
        "json.loads": "standard library",
        "nets.model.x": "user",
        "einops.rearrange": "other",
    }


# --- streams that are made to be hard to read

HOSTILE = {
    "never ends": b"\x80\x04" + b"]" * 50_000,
    "deep tuples": b"\x80\x04)" + b"\x85" * 500_000 + b".",
    "deep lists": b"\x80\x04" + b"(" * 500_000 + b"l" * 500_000 + b".",
    "a memo of a million": b"\x80\x04N" + b"\x94" * 1_000_000 + b".",
    "a memo far away": b"\x80\x04Nr\xff\xff\xff\xff.",
    "bytes of four exabytes": b"\x80\x04\x8e" + b"\xff" * 7 + b"\x3f" + b"x",
    "text of four gigabytes": b"\x80\x04X\xff\xff\xff\xffx",
    "a frame that is longer than the file": b"\x80\x04\x95" + b"\xff" * 8 + b"N.",
    "a long integer": b"\x80\x04L" + b"9" * 400_000 + b"L\n.",
    "a long hexadecimal": b"\x80\x04\x8b\xff\xff\xff\x7f" + b"\x01" * 1000 + b".",
    "a quadrillion doublings": b"\x80\x04]" + b"2\x86" * 200_000 + b".",
    "no opcode": b"\x80\x04\xfe.",
    "nothing to pop": b"\x80\x040.",
    "no mark": b"\x80\x04u.",
    "an object that is not there": b"\x80\x04h\x07.",
    "protocol 255": b"\x80\xff.",
    "a class that is no text": b"\x80\x04N\x8c\x01a\x93.",
    "undecodable": b"\x80\x04X\x02\x00\x00\x00\xff\xfe.",
    "empty": b"",
    "a global without an end": b"\x80\x02cos",
    "pickles without end": b"N." * 200_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_stream_is_read_in_bounded_time_and_its_end_is_told(name):
    begun = time.perf_counter()
    found = found_in(HOSTILE[name])
    assert time.perf_counter() - begun < 20
    assert drawn(found)


def test_a_stream_that_is_too_long_is_told_to_be_unread():
    steps = list(opcodes.read(b"\x80\x04" + b"N0" * 1000 + stack_global("os", "system") + b".", most=500))
    assert [step.kind for step in steps] == ["end"]
    assert steps[0].subject == "more than 500 opcodes"


def test_what_cannot_be_read_is_said_to_be_unknown():
    found = found_in(b"\x80\x04N\xfe" + stack_global("os", "system") + b".")
    assert "no opcode that can be read" in found.unread
    text = drawn(found)
    assert "Not read to its end" in text
    assert "Nothing unusual" not in text


def test_a_million_different_names_are_counted_and_not_kept():
    values = b"\x80\x04" + b"".join(stack_global("m", f"n{n}") + b"0" for n in range(6_000)) + b"."
    found = found_in(values)
    assert len(found.names) == 5_000
    assert found.more == 1_000


# --- the report and the command


def test_the_report_of_a_hostile_stream_looks_as_the_gold_file():
    values = (
        b"\x80\x04]"
        + stack_global("os", "system")
        + text("touch \x1b[31mx")
        + b"\x85Ra"
        + stack_global("subprocess", "run")
        + b"0"
        + stack_global("numpy", "ndarray")
        + b"0."
    )
    assert_gold("imports_hostile.txt", drawn(found_in(values)))


@pytest.mark.parametrize("stem", ["resume_function", "toy_backend_rejects_relu"])
def test_the_report_of_a_recording_looks_as_the_gold_file(stem):
    with load(ROOT / "recordings" / f"{stem}.rec") as bundle:
        text = drawn(imports_of(bundle)).replace(bundle.path, f"{stem}.rec")
    assert_gold(f"imports_{stem}.txt", text)
    assert all(len(line) <= 100 for line in text.splitlines())


def test_no_control_character_of_a_stream_is_printed(tmp_path):
    evil = "a\x1b[31m\x9b2J\u202e\x07"
    values = b"\x80\x04" + stack_global(evil, evil) + text(evil) + b"\x85R."
    text_ = drawn(found_in(values, [evil]))
    assert not any((ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c == "\u202e" for c in text_)


def test_the_command_prints_text_or_one_json_object(tmp_path):
    path = bundle_of(tmp_path, pickle.dumps(Calls(os.system, "true")))
    result = CliRunner().invoke(application, ["inspect", str(path), "--imports"])
    assert result.exit_code == 0
    assert "posix.system('true'): it can run commands" in result.output
    result = CliRunner().invoke(application, ["inspect", str(path), "--imports", "--json"])
    found = json.loads(result.output)
    assert found["alarms"][0]["what"] == "calls posix.system('true')"
    assert found["bundle"] == str(path)


def test_the_command_imports_no_torch():
    code = (
        "import sys; from replay.cli import main\n"
        f"assert main(['inspect', {str(RECORDINGS[0])!r}, '--imports']) == 0\n"
        "assert 'torch' not in sys.modules and 'dill' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "Nothing unusual" in done.stdout


def test_a_bundle_without_values_says_so(tmp_path):
    with BundleWriter(tmp_path, "x") as writer:
        path = writer.commit(plain_manifest())
    with load(path) as bundle:
        assert "has no values" in drawn(imports_of(bundle))
