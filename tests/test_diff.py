"""`diff`, `source` and `verify`: looking at bundles, which runs nothing."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from bundles import ENVIRONMENT, FILE, TEXT, plain_manifest, write_bundle
from click.testing import CliRunner
from gold import assert_gold

from replay.bundle import BundleWriter, load
from replay.cli.application import application
from replay.contents.differences import differences
from replay.recording import InputInfo, StorageSpec, TensorSpec
from replay.report.differences import draw_differences
from replay.report.sources import draw_source

ROOT = Path(__file__).parent.parent
EVIL = "a\x1b[31mred\x1b]0;title\x07\u202ekcab\x9b2J\ud800"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800]")


def write(folder, stem, *, texts=None, values=b"\x80\x04N.", blob=b"1234", **changes):
    """A bundle with these files (the first is the frame's), values and manifest."""
    texts = {FILE: TEXT} if texts is None else texts
    with BundleWriter(folder, stem) as writer:
        sources = {file: writer.add_source(file, text) for file, text in texts.items()}
        writer.add_values(values)
        storages = {"s0": StorageSpec(4, 0, 4, "cpu", writer.add_blob("s0", 4, [blob]))}
        file = next(iter(sources), FILE)
        frame = replace(plain_manifest().frame, file=file, entry=sources.get(file))
        given = {"frame": frame, "sources": sources, "storages": storages, **changes}
        return writer.commit(plain_manifest(**given))


def compare(first, second):
    with load(first) as one, load(second) as other:
        return differences(one, other)


def drawn(found):
    stream = io.StringIO()
    draw_differences(found, stream)
    return stream.getvalue()


def run(*words):
    return CliRunner().invoke(application, [str(word) for word in words])


# --- diff


def test_equal_bundles_are_the_same_whenever_they_were_written(tmp_path):
    first = write(tmp_path, "a", process={"thread": "MainThread", "session": "a"}, state={"generators": [1]})
    second = write(
        tmp_path, "b", process={"thread": "x", "session": "b"}, created="2026", state={"generators": [2]}
    )
    assert compare(first, second).same
    assert run("diff", first, second).exit_code == 0


def tensors(shape):
    spec = TensorSpec(shape, (1,), 0, "float32", "cpu", "s0")
    return {
        "tensors": {"t0": spec},
        "inputs": (InputInfo("x", "argument", "torch.Tensor", f"float32{list(shape)} cpu", ("t0",)),),
    }


CHANGES = {
    "frame": ({"reason": "x"}, "frame", "reason"),
    "error": ({"error": replace(plain_manifest().error, message="other")}, "error", "message"),
    "no error": ({"error": None, "event": "success"}, "frame", "event"),
    "backend": ({"compile": replace(plain_manifest().compile, backend="eager")}, "compiled with", "backend"),
    "config": ({"config": {"dynamo.cache_size_limit": 2}}, "config", "dynamo.cache_size_limit"),
    "state": ({"state": {"grad_enabled": False}}, "state", "grad_enabled"),
    "environment": ({"environment": replace(ENVIRONMENT, torch="2.10")}, "environment", "torch"),
    "package": ({"environment": replace(ENVIRONMENT, packages={})}, "environment", "packages.numpy"),
    "variable": (
        {"environment": replace(ENVIRONMENT, variables={"OMP_NUM_THREADS": "1"})},
        "environment",
        "variables.OMP_NUM_THREADS",
    ),
    "input": (tensors((5,)), "inputs", "x.shape"),
    "only one has an input": ({"inputs": ()}, "inputs", "argument x"),
    "values": ({"values": b"\x80\x04]."}, "values", "values.pkl"),
    "a tensor's numbers": ({"blob": b"4321"}, "values", "storage s0"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_difference_is_found_in_its_section(tmp_path, name):
    changes, section, wanted = CHANGES[name]
    first = write(tmp_path, "a", **tensors((4,)))
    second = write(tmp_path, "b", **{**tensors((4,)), **changes})
    found = compare(first, second)
    assert (section, wanted) in [(one.section, one.name) for one in found.changes]
    assert run("diff", first, second).exit_code == 1


def test_texts_are_compared_line_by_line_also_where_they_lie_elsewhere(tmp_path):
    first = write(tmp_path, "a", texts={"/home/ann/nets/block.py": "a = 1\nb = 2\n", "/x/same.py": "x = 1\n"})
    second = write(tmp_path, "b", texts={"/srv/nets/block.py": "a = 1\nb = 3\n", "/y/same.py": "x = 1\n"})
    [change] = compare(first, second).texts
    assert change.file == "/home/ann/nets/block.py"
    assert change.lines == ("@@ -1,2 +1,2 @@", " a = 1", "-b = 2", "+b = 3")


def test_a_text_that_only_one_has_is_named(tmp_path):
    first = write(tmp_path, "a", texts={FILE: TEXT, "/home/ann/one.py": "1\n"})
    second = write(tmp_path, "b", texts={FILE: TEXT, "/home/ann/two.py": "2\n"})
    assert [(one.file, one.only) for one in compare(first, second).texts] == [
        ("/home/ann/one.py", "first"),
        ("/home/ann/two.py", "second"),
    ]


def test_texts_that_are_made_to_be_slow_to_compare_are_not_compared(tmp_path):
    first = write(tmp_path, "a", texts={FILE: "a\nb\n" * 20_000})
    second = write(tmp_path, "b", texts={FILE: "b\nc\n" * 20_000})
    begun = time.perf_counter()
    [change] = compare(first, second).texts
    assert time.perf_counter() - begun < 5
    assert change.lines == ()


def test_the_report_looks_as_the_gold_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(Path(), "a", **tensors((4,)))
    second = {**tensors((5,)), "config": {}, "environment": replace(ENVIRONMENT, torch="2.13.0")}
    write(Path(), "b", **second, texts={FILE: TEXT.replace("relu", "gelu")})
    assert_gold("diff.txt", drawn(compare("a.rec", "b.rec")))


def test_nothing_of_a_bundle_is_printed_raw(tmp_path):
    first = write(tmp_path, "a")
    error = replace(plain_manifest().error, message=EVIL * 2 + "\n" + EVIL, type=EVIL)
    second = write(
        tmp_path, "b", texts={f"/x/{EVIL}.py": EVIL}, error=error, config={EVIL: EVIL}, state={EVIL: [EVIL]}
    )
    assert not CONTROLS.search(drawn(compare(first, second)))
    assert not CONTROLS.search(run("diff", first, second, "--json").output)


def test_the_json_is_one_object(tmp_path):
    first, second = write(tmp_path, "a"), write(tmp_path, "b", config={})
    found = json.loads(run("diff", first, second, "--json").output)
    assert found["same"] is False
    assert found["changes"][0]["name"] == "dynamo.cache_size_limit"
    assert found["changes"][0]["only"] == "first"


def test_a_damaged_bundle_is_refused(tmp_path):
    first = write(tmp_path, "a")
    bad = tmp_path / "bad.rec"
    bad.write_bytes(first.read_bytes()[:-3])
    result = run("diff", first, bad)
    assert result.exit_code == 2


# --- verify


def test_verify_says_for_each_bundle_whether_it_is_whole(tmp_path):
    good, other = write_bundle(tmp_path, "good"), write_bundle(tmp_path, "other")
    data = bytearray(other.read_bytes())
    data[data.index(bytes(range(64))) + 5] ^= 1  # in a blob: `load` alone does not see it
    other.write_bytes(data)
    load(other).close()
    result = run("verify", good, other)
    assert result.exit_code == 2
    one, two = result.output.splitlines()
    assert one.startswith(f"ok   {good}: ")
    assert two.startswith(f"bad  {other}: ")
    assert run("verify", good).exit_code == 0


def test_verify_takes_a_directory_and_prints_json(tmp_path):
    write_bundle(tmp_path, "a")
    (tmp_path / "b.rec").write_text("no bundle")
    found = json.loads(run("verify", tmp_path, "--json").output)
    assert [one["error"] is None for one in found["bundles"]] == [True, False]
    assert run("verify", tmp_path).exit_code == 2


def test_verify_of_what_is_not_there_is_an_answer(tmp_path):
    result = run("verify", tmp_path / "no.rec")
    assert result.exit_code == 2
    assert "there is no such file" in result.output
    (tmp_path / "empty").mkdir()
    assert run("verify", tmp_path / "empty").exit_code == 2


def test_every_recording_is_whole():
    result = run("verify", ROOT / "recordings")
    assert result.exit_code == 0, result.output


# --- source


def test_source_prints_the_frames_own_text_or_the_file_that_is_named(tmp_path):
    path = write(tmp_path, "a", texts={FILE: TEXT, "/home/ann/nets/ops.py": "def f():\n\treturn 1\n"})
    assert run("source", path).output == TEXT
    for name in ("ops.py", "nets/ops.py", "/home/ann/nets/ops.py", "source/ann/nets/ops.py"):
        assert run("source", path, name).output == "def f():\n\treturn 1\n"


def test_source_lists_the_files(tmp_path):
    path = write(tmp_path, "a", texts={FILE: TEXT, "/home/ann/nets/ops.py": "x = 1\n"})
    lines = run("source", path, "--list").output.splitlines()
    assert any(line.split()[2:4] == ["2", FILE] and line.endswith("the frame's") for line in lines)
    assert any("/home/ann/nets/ops.py" in line for line in lines)
    found = json.loads(run("source", path, "--json").output)
    assert [one["text"] for one in found["sources"]] == [TEXT, "x = 1\n"]


def test_a_name_that_is_not_there_or_means_several_is_refused_with_the_names(tmp_path):
    path = write(tmp_path, "a", texts={FILE: TEXT, "/a/ops.py": "1\n", "/b/ops.py": "2\n"})
    for name, words in [("ops.py", "means several files"), ("no.py", "is not in the bundle")]:
        result = run("source", path, name)
        assert result.exit_code == 2
        assert words in result.stderr
        assert "/b/ops.py" in result.stderr


def test_a_source_is_never_printed_raw(tmp_path):
    path = write(tmp_path, "a", texts={FILE: f"x = 1  # {EVIL}\n\ty = 2\n"})
    output = run("source", path).output
    assert not CONTROLS.search(output)
    assert "\\x1b[31mred" in output
    assert "\n\ty = 2\n" in output


def test_a_terminal_gets_colours_and_no_escape_of_the_bundles(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    draw_source(f"x = 1  # {EVIL}\n", stream)
    assert "\x1b[" in stream.getvalue()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert not CONTROLS.search(plain)
    assert plain.startswith("x = 1  # a\\x1b[31mred")


def test_none_of_them_imports_torch():
    recordings = sorted((ROOT / "recordings").glob("*.rec"))[:2]
    one, other = map(str, recordings)
    code = (
        "import sys; from replay.cli import main\n"
        f"assert main(['source', {one!r}]) == 0\n"
        f"assert main(['verify', {one!r}, {other!r}]) == 0\n"
        f"assert main(['diff', {one!r}, {other!r}]) == 1\n"
        "assert 'torch' not in sys.modules and 'pygments' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
