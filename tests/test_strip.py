"""`strip`: a bundle with less of a person's in it, whose failure survives."""

from __future__ import annotations

import ast
import importlib
import io
import json
import marshal
import pickle
import re
import struct
import sys
import textwrap
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from bundles import ENVIRONMENT, plain_manifest
from click.testing import CliRunner
from gold import assert_gold
from hypothesis import given
from hypothesis import strategies as st

from replay import fingerprint, shipping
from replay.bundle import BundleWriter, load
from replay.cli.application import application
from replay.contents.imports import imports_in, imports_of
from replay.errors import BundleError, MissingError, UsageError
from replay.recording import InputInfo, StorageSpec, TensorSpec, UserFrame
from replay.report.stripping import draw_stripped
from replay.stripping import cutting, renaming, strip, stripping, values
from replay.stripping.assignments import without_values
from replay.stripping.comments import without_comments
from replay.stripping.statistics import metadata_of

ROOT = Path(__file__).parent.parent
FILE = "/home/annika/secret-project/train.py"
OTHER = "/home/annika/secret-project/nets/ops.py"

TEXT = '''# Written by annika for Contoso.
"""Trains.

Secretly.
"""
PATH = "/home/annika/data/patients.csv"


def step(x):  # the failing one
    """What annika@contoso.example thought of."""
    return x.relu()  # größer als 0
'''

DOC = "What annika@contoso.example thought of."
FRAME = UserFrame(FILE, 11, "step", "return x.relu()  # größer als 0")
MESSAGE = (
    f"no relu\n\nfrom user code:\n   File {FILE!r}, line 11, in step\n    return x.relu()  # größer als 0\n"
)


def failure():
    error = replace(plain_manifest().error, user_frames=(FRAME,), message=MESSAGE, traceback=MESSAGE)
    core = fingerprint.compute(
        stage=error.stage, type=error.type, user_frames=error.user_frames, title="no relu"
    )
    return replace(error, fingerprint=core)


def write(folder, stem="x", **changes):
    root = {
        "file": FILE,
        "doc": "What annika@contoso.example thought of.",
        "annika": 1,
        "by": "for annika, on lab7-gpu",
    }
    floats = memoryview(bytearray(16)).cast("f")
    for at, number in enumerate((1.0, -2.0, 3.0, 0.5)):
        floats[at] = number
    with BundleWriter(folder, stem) as writer:
        sources = {FILE: writer.add_source(FILE, TEXT), OTHER: writer.add_source(OTHER, "x = 1\n")}
        writer.add_values(pickle.dumps(root, 4) + pickle.dumps(["lost", "ö" * 300], 4))
        storages = {
            "s0": StorageSpec(16, 0, 16, "cpu", writer.add_blob("s0", 16, [floats.cast("B")])),
            "s1": StorageSpec(16, 0, 16, "cpu", writer.add_blob("s1", 16, [bytes([7] * 16)])),
        }
        tensors = {
            "t0": TensorSpec((4,), (1,), 0, "float32", "cpu", "s0"),
            "t1": TensorSpec((2,), (1,), 0, "int64", "cpu", "s1"),
        }
        given = {
            "frame": replace(plain_manifest().frame, function="step", file=FILE, entry=sources[FILE]),
            "error": failure(),
            "sources": sources,
            "storages": storages,
            "tensors": tensors,
            "inputs": (
                InputInfo("x", "argument", "torch.Tensor", "float32[4] cpu", ("t0",)),
                InputInfo("index", "argument", "torch.Tensor", "int64[2] cpu", ("t1",)),
            ),
            "environment": replace(
                ENVIRONMENT,
                platform="Linux-annika",
                cpu="x",
                variables={"TORCHINDUCTOR_MAX_AUTOTUNE": "1", "TORCH_COMPILE_TOKEN": "a", "RANK": "0"},
            ),
            "config": {"inductor.cache_dir": "/home/annika/.cache/x"},
            "process": {"session": "abc", "thread": "MainThread"},
            **changes,
        }
        return writer.commit(plain_manifest(**given))


@pytest.fixture(autouse=True)
def _named(monkeypatch):
    monkeypatch.setattr(renaming.socket, "gethostname", lambda: "lab7-gpu")
    monkeypatch.setattr(renaming.getpass, "getuser", lambda: "annika")


@pytest.fixture
def original(tmp_path):
    return write(tmp_path)


def contents(path):
    """All that a bundle holds but tensors, as one text."""
    with load(path) as bundle:
        bundle.verify()
        parts = [repr(bundle.manifest), bundle.values().decode("utf-8", "replace")]
        parts += [bundle.source(entry) for entry in bundle.manifest.sources.values()]
    return "\n".join(parts)


# --- the whole


def test_no_name_of_a_person_a_machine_or_a_project_is_left(original):
    found = strip(original, check=False)
    text = contents(found.bundle)
    for gone in (
        "contoso",
        "Contoso",
        "secret-project",
        "lab7-gpu",
        "Secretly",
        "größer",
    ):
        assert gone not in text, gone
    assert "annika" not in text.replace("'annika': 1", "").replace("\x06annika", "")
    assert "/stripped/train.py" in text
    assert "/home/user/data/patients.csv" in text


def test_the_original_stays_what_it_was(original):
    before = original.read_bytes()
    found = strip(original, check=False)
    assert original.read_bytes() == before
    assert found.bundle == str(original.with_name("x.stripped.rec"))
    assert sorted(path.name for path in original.parent.iterdir()) == ["x.rec", "x.stripped.rec"]


def test_every_statement_stays_on_its_line(original):
    found = strip(original, check=False)
    with load(found.bundle) as bundle:
        text = bundle.source_for("/stripped/train.py")
        assert bundle.manifest.frame.file == "/stripped/train.py"
        assert bundle.manifest.frame.entry in bundle.manifest.entries
    assert text.split("\n")[10] == "    return x.relu()"
    assert text.split("\n")[8] == "def step(x):"
    assert len(text.split("\n")) == len(TEXT.split("\n"))
    assert "#" not in text


def test_the_error_quotes_the_line_as_it_is_now_and_its_fingerprint_follows(original):
    found = strip(original, check=False)
    with load(found.bundle) as bundle:
        error = bundle.manifest.error
    assert error.user_frames[0].code == "return x.relu()"
    assert error.user_frames[0].file == "/stripped/train.py"
    assert "größer" not in error.message + error.traceback
    assert fingerprint.core(error.fingerprint) != fingerprint.core(failure().fingerprint)
    expected = fingerprint.compute(stage=error.stage, type=error.type, user_frames=error.user_frames)
    assert fingerprint.core(error.fingerprint) == fingerprint.core(expected)
    assert error.fingerprint.partition("-")[2] == failure().fingerprint.partition("-")[2]


def test_an_unchanged_line_keeps_its_fingerprint(tmp_path):
    frame = UserFrame(FILE, 6, "step", "PATHS = 1")
    error = replace(failure(), user_frames=(frame,), fingerprint="12345678-abcdefgh")
    found = strip(write(tmp_path, error=error), check=False)
    with load(found.bundle) as bundle:
        assert bundle.manifest.error.fingerprint == "12345678-abcdefgh"


def test_values_become_metadata(original):
    found = strip(original, check=False)
    with load(found.bundle) as bundle:
        storages = bundle.manifest.storages
        assert not [name for name in bundle.manifest.entries if name.startswith("blobs/")]
    assert storages["s0"].entry is None
    assert storages["s0"].dtype == "float32"
    assert storages["s0"].statistics["min"] == -2.0
    assert storages["s0"].statistics["max"] == 3.0
    assert storages["s0"].statistics["mean"] == 0.625
    assert storages["s1"].dtype == "int64"
    assert storages["s1"].statistics["max"] == float(int.from_bytes(bytes([7] * 8), "little"))


@pytest.mark.parametrize(
    ("chosen", "gone"),
    [("none", set()), (["x"], {"s0"}), ("index", {"s1"}), (["s1", "x"], {"s0", "s1"}), ("all", {"s0", "s1"})],
)
def test_values_go_by_the_names_of_inputs_or_storages(original, chosen, gone):
    found = strip(original, values=chosen, check=False)
    with load(found.bundle) as bundle:
        bundle.verify()
        assert {key for key, spec in bundle.manifest.storages.items() if spec.entry is None} == gone


def test_a_name_that_is_no_inputs_is_refused(original):
    with pytest.raises(UsageError, match="no input or storage is called 'y'; the inputs are: x, index"):
        strip(original, values=["y"], check=False)


def test_the_environment_is_reduced(original):
    found = strip(original, check=False)
    with load(found.bundle) as bundle:
        environment = bundle.manifest.environment
        assert "session" not in bundle.manifest.process
    assert environment.variables == {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"} | (
        {"RANK": "0"} if "RANK" in environment.variables else {}
    )
    assert (environment.platform, environment.cpu) == ("", "")
    assert environment.torch == ENVIRONMENT.torch


def test_each_thing_can_be_kept(original):
    found = strip(original, values="none", comments=False, names=False, environment="recorded", check=False)
    with load(found.bundle) as bundle, load(original) as before:
        one, other = bundle.manifest, before.manifest
        assert one.sources == other.sources
        assert one.storages == other.storages
        assert one.environment == other.environment
        assert one.error == other.error
        assert bundle.source_for(FILE) == TEXT
        assert pickle.loads(bundle.values()) == pickle.loads(before.values())
    assert found.removed == ()


def test_a_stripped_bundle_has_little_to_strip(original):
    once = strip(original, check=False)
    twice = strip(once.bundle, check=False)
    assert twice.removed == ()
    assert contents(once.bundle).replace("\n", "") == contents(twice.bundle).replace("\n", "")


# --- files that may not be written


def test_nothing_is_written_over_without_force_and_the_original_never(original, tmp_path):
    taken = tmp_path / "taken.rec"
    taken.write_text("mine")
    with pytest.raises(UsageError, match="the file exists"):
        strip(original, taken, check=False)
    assert taken.read_text() == "mine"
    strip(original, taken, check=False, force=True)
    load(taken).close()
    link = tmp_path / "link.rec"
    link.symlink_to(original)
    for target in (original, link):
        with pytest.raises(UsageError, match="that is the original"):
            strip(original, target, check=False, force=True)
    with pytest.raises(UsageError, match="there is no directory"):
        strip(original, tmp_path / "no" / "x.rec", check=False)
    with pytest.raises(UsageError, match="this is a directory"):
        strip(original, tmp_path, check=False)


def test_a_directory_that_refuses_is_an_error_with_advice(original, monkeypatch):
    def refused(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(stripping.tempfile, "TemporaryDirectory", refused)
    with pytest.raises(BundleError, match="Permission denied; name a file elsewhere with -o"):
        strip(original, check=False)


def test_a_failure_on_the_way_leaves_nothing(original, monkeypatch):
    monkeypatch.setattr(stripping, "run", lambda *arguments, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        strip(original)
    assert [path.name for path in original.parent.iterdir()] == ["x.rec"]


# --- whether the failure survived


def runs(monkeypatch, made, before="reproduced"):
    from specimens import REPRODUCED

    def run(bundle, **options):
        return replace(REPRODUCED, status=before if hasattr(bundle, "manifest") else made)

    monkeypatch.setattr(stripping, "run", run)


@pytest.mark.parametrize(
    ("made", "before", "survival", "code"),
    [
        ("reproduced", "reproduced", "survived", 0),
        ("passed", "reproduced", "lost", 3),
        ("different", "reproduced", "lost", 3),
        ("missing", "missing", "unknown", 125),
        ("passed", "passed", "unknown", 125),
    ],
)
def test_the_replays_decide_what_is_said(original, monkeypatch, made, before, survival, code):
    runs(monkeypatch, made, before)
    result = CliRunner().invoke(application, ["strip", str(original), "--json"])
    found = json.loads(result.output)
    assert (found["survival"], result.exit_code) == (survival, code)
    with load(found["bundle"]) as bundle:
        known = bundle.manifest.substitution
    assert (known.survived, known.reproduces) == {"survived": (True, True), "lost": (False, False)}.get(
        survival, (None, None)
    )


def test_a_recorded_success_survives_if_it_passes(tmp_path, monkeypatch):
    runs(monkeypatch, "passed")
    path = write(tmp_path, event="success", error=None)
    assert strip(path).survival == "survived"


def test_unchecked_runs_nothing_and_says_so(original, monkeypatch):
    monkeypatch.setattr(stripping, "run", lambda *arguments, **options: 1 / 0)
    found = strip(original, check=False)
    assert found.survival == "unchecked"
    with load(found.bundle) as bundle:
        assert bundle.manifest.substitution.survived is None


# --- the report and the command


def drawn(found):
    stream = io.StringIO()
    draw_stripped(found, stream)
    return stream.getvalue()


def test_the_report_looks_as_the_gold_file(original, monkeypatch):
    monkeypatch.chdir(original.parent)
    runs(monkeypatch, "passed")
    found = strip("x.rec")
    text = drawn(
        replace(found, left=replace(found.left, detector="detect-secrets 1.5.0"), size=1, original_size=2)
    )
    assert_gold("strip.txt", text)
    assert max(map(len, text.splitlines())) <= 80


def test_the_command_writes_and_says_what_it_did(original):
    words = ["strip", str(original), "--no-check", "--values", "x", "--keep-comments"]
    result = CliRunner().invoke(application, words)
    assert result.exit_code == 0, result.output
    assert "Not checked whether the failure survived" in result.output
    assert "the values of 1 storage, 16 bytes" in result.output
    assert CliRunner().invoke(application, words).exit_code == 2
    assert CliRunner().invoke(application, [*words, "--force"]).exit_code == 0


# --- comments


def stripped(text):
    found = without_comments(textwrap.dedent(text))
    return None if found is None else found.text


def test_comments_and_docstrings_go_and_hashes_in_texts_stay():
    text = 'x = "# no comment"  # one\n\n\ndef f():\n    """Doc.\n\n    More.\n    """; y = 1  # two\n    return y\n'
    assert stripped(text) == 'x = "# no comment"\n\n\ndef f():\n    """\n\n\n"""; y = 1\n    return y\n'


def test_a_text_that_cannot_be_parsed_stays_and_is_told(tmp_path):
    assert without_comments("def f(:\n  # x\n") is None
    with BundleWriter(tmp_path, "x") as writer:
        entry = writer.add_source("/x/bad.py", "def f(:  # annika\n")
        path = writer.commit(plain_manifest(sources={"/x/bad.py": entry}))
    found = strip(path, check=False)
    assert found.kept == ("the comments of /x/bad.py: this Python cannot parse it",)


@pytest.mark.parametrize("path", sorted((ROOT / "replay").rglob("*.py"))[::6], ids=lambda path: path.name)
def test_a_stripped_file_means_what_it_meant(path):
    text = path.read_text()
    bare = stripped(text)
    tree, other = ast.parse(text), ast.parse(bare)
    lines = [[node.lineno for node in ast.walk(one) if isinstance(node, ast.stmt)] for one in (tree, other)]
    assert lines[0] == lines[1]
    assert not re.search(r"^\s*#", bare, re.MULTILINE)
    assert stripped(bare) == bare


@given(st.text(alphabet="#'\"\\\n ()x=:\tdef", max_size=60))
def test_any_text_is_stripped_rightly_or_left(text):
    found = without_comments(text)
    if found is not None:
        assert found.text.count("\n") == text.count("\n")
        compile(found.text, "x", "exec", ast.PyCF_ONLY_AST)


def test_what_is_assigned_to_a_dropped_name_goes_from_the_source_too():
    text = 'A = "Jane Roe"\nB: dict = {\n    "x": "Jane",\n\n}\nC, A = 1, "Roe"\ndef A(): return "x"\nD = A\n'
    found, left = without_values(text, ["A", "B"])
    assert found == 'A = ...\nB: dict = (...\n\n\n)\nC, A = ...\ndef A(): return "x"\nD = A\n'
    assert left == {"A"}
    ast.parse(found)
    assert without_values("def f(:\nA = 1", ["A", "Z"]) == ("def f(:\nA = 1", {"A"})


# --- texts of values


PLAIN = st.recursive(
    st.text() | st.integers() | st.binary(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(PLAIN)
def test_values_are_rewritten_without_loading_them(root):
    data = b"".join(pickle.dumps([root, root], protocol) for protocol in (4, 5))
    assert [pickle.load(io.BytesIO(data))] * 2 == loads(values.rewritten(data, str, "x"))
    changed = loads(values.rewritten(data, lambda text: "ü" * 300 if text else text, "x"))
    assert changed == [mapped([root, root])] * 2


def loads(data):
    stream = io.BytesIO(data)
    return [pickle.load(stream) for _ in range(2)]


def mapped(value):
    if isinstance(value, str):
        return "ü" * 300 if value else value
    if isinstance(value, list):
        return [mapped(one) for one in value]
    return {mapped(key): mapped(one) for key, one in value.items()} if isinstance(value, dict) else value


def test_bytecode_of_this_python_gets_other_names_too_and_of_another_is_told():
    code = compile("x = 'by annika'", "/home/annika/x.py", "exec")
    step = ("make_marshalled", ((3, 11), marshal.dumps(code), "x"))
    data = b"\x80\x04" + b"".join(
        (
            *(b"\x8c" + bytes([len(one)]) + one for one in (b"replay.shipping.codes", step[0].encode())),
            b"\x93K\x03K\x0b\x86B" + struct.pack("<I", len(step[1][1])) + step[1][1] + b"\x8c\x01x\x87R.",
        )
    )
    change = lambda text: text.replace("annika", "user")
    assert values.rewritten(data, change, "x") == data
    made = values.rewritten(data, change, "x", bytecode=True)
    assert b"annika" not in made
    assert b"/home/user/x.py" in made
    assert imports_in(made, [], "x").code[0].kind == "bytecode"


def test_values_that_cannot_be_read_are_refused(tmp_path):
    with BundleWriter(tmp_path, "x") as writer:
        writer.add_values(b"\x80\x04\xfe")
        path = writer.commit(plain_manifest())
    with pytest.raises(BundleError, match=r"values.pkl cannot be read"):
        strip(path, check=False)
    assert [one.name for one in tmp_path.iterdir()] == ["x.rec"]


# --- statistics


@pytest.mark.parametrize("dtype", ["bfloat16", "complex64", "float8_e4m3fn", "quint8"])
def test_of_types_that_python_cannot_read_nothing_is_kept(dtype):
    spec = metadata_of(StorageSpec(4, 0, 4, "cpu", "blobs/x"), dtype, memoryview(b"abcd"))
    assert spec.entry is None
    assert spec.statistics["mean" if dtype[0] in "bcf" else "min"] == 0.0


def test_infinities_and_odd_lengths_do_no_harm():
    data = memoryview(bytearray(b"\x00\x00\x80\x7f" * 2 + b"\x01"))
    spec = metadata_of(StorageSpec(9, 0, 9, "cpu", "blobs/x"), "float32", data)
    assert spec.statistics["max"] == 0.0


# --- globals and earlier calls


class NoTensors:
    def add(self, tensor):
        raise AssertionError("no tensor was expected")

    add_storage = get = get_storage = add


PROGRAM = """
SECRET = {"patients": ["Jane Roe", "Richard Roe"], "count": 2}
SHARED = ["shared"]
WORD = "word"
def helper(): return SECRET["count"], SHARED, WORD
def step(): return helper(), SHARED, WORD, len(SECRET)
"""


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "cutme.py").write_text(PROGRAM)
    module = importlib.import_module("cutme")
    root = {
        "function": module.step,
        "arguments": [module.SHARED],
        "calls": [{"arguments": ["Mary Major"]}],
        "x": "x",
    }
    yield shipping.dump(root, tensors=NoTensors())
    del sys.modules["cutme"]


def cut(shipment, *names, calls=False):
    found = cutting.without(shipment.values, names, calls=calls, path="x.rec")
    return found, replace(shipment, values=found.values)


@contextmanager
def loaded(shipment):
    with shipping.loaded(shipment.values, sources=shipment.sources, tensors=NoTensors()) as found:
        yield found


def test_a_stream_without_cuts_means_what_it_meant(shipped):
    found, _ = cut(shipped)
    assert found.values == shipped.values
    again = cutting._Stream(shipped.values).replaced([])
    with loaded(replace(shipped, values=again)) as before:
        assert before.root["function"]()[0] == (2, ["shared"], "word")


def test_a_global_goes_and_using_it_says_that_it_is_missing(shipped):
    found, made = cut(shipped, "SECRET")
    assert found.gone == ("global SECRET",)
    assert b"Jane" in shipped.values
    assert b"Jane" not in found.values
    with loaded(made) as values:
        assert [one.name for one in values.missing] == ["globals.SECRET"]
        assert values.root["arguments"] == [["shared"]]
        with pytest.raises(MissingError, match="taken out of the bundle by strip"):
            values.root["function"]()


def test_texts_that_the_rest_shares_are_made_anew(shipped):
    found, made = cut(shipped, "WORD")
    assert found.gone == ("global WORD",)
    with loaded(made) as values:
        step = values.root["function"]
        assert step.__globals__["SECRET"]["patients"] == ["Jane Roe", "Richard Roe"]
        assert step.__globals__["helper"].__globals__ is step.__globals__


def test_earlier_calls_go(shipped):
    found, made = cut(shipped, calls=True)
    assert found.gone == ("earlier calls",)
    assert b"Mary" not in found.values
    with loaded(made) as values:
        assert values.root["calls"] == []
        assert values.root["function"]()[3] == 2


def test_what_something_else_holds_too_stays_there_and_that_is_told(shipped):
    found, made = cut(shipped, "SHARED")
    assert found.gone + found.shared == ("global SHARED",)
    assert found.shared or found.elsewhere or b"shared" not in found.values
    with loaded(made) as values:
        assert values.root["arguments"] == [["shared"]]


def test_values_of_another_form_are_not_cut(shipped):
    with pytest.raises(BundleError, match="not as replay writes it"):
        cutting.without(pickle.dumps({"calls": [1]}, 2), ["x"], calls=True, path="x.rec")


def test_a_global_that_nothing_uses_is_refused(original):
    with pytest.raises(UsageError, match="no function in it uses a global that is called 'X'"):
        strip(original, drop_globals=["X"], check=False)


@pytest.mark.parametrize("stem", ["suppressed_error", "module_with_parameters", "toy_backend_rejects_relu"])
def test_recordings_lose_a_global(stem, tmp_path):
    name = {"suppressed_error": "picky", "module_with_parameters": "EPSILON"}.get(stem, "model")
    recording = ROOT / "recordings" / f"{stem}.rec"
    found = strip(recording, tmp_path / "x.rec", drop_globals=[name], check=False)
    assert f"global {name}" in found.removed
    with load(found.bundle) as bundle:
        assert f"globals.{name}" in {one.name for one in bundle.manifest.missing}
        assert name not in {one.name for one in bundle.manifest.inputs if one.role == "global"}
        assert imports_of(bundle).unread == ""


def test_a_recording_loses_its_earlier_calls_unless_they_are_what_was_recorded(tmp_path):
    found = strip(
        ROOT / "recordings" / "dynamic_second_call.rec", tmp_path / "x.rec", drop_calls=True, check=False
    )
    assert "earlier calls" in found.removed
    with load(found.bundle) as bundle:
        assert bundle.manifest.calls == ()
    found = strip(
        ROOT / "recordings" / "recompile_attribute.rec", tmp_path / "y.rec", drop_calls=True, check=False
    )
    with load(found.bundle) as bundle:
        assert bundle.manifest.calls or bundle.manifest.sequence is None
