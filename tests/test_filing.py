"""`issue`: the text of a bug report, safe Markdown, the attachment, and the command."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import pytest
from gold import assert_gold
from hypothesis import given
from hypothesis import strategies as st
from programs import ROOT, python

import replay
from replay.cli import main
from replay.errors import UsageError
from replay.filing import form
from replay.filing.markdown import fence, shortened, span, without_people
from replay.filing.versions import UNKNOWN, versions
from replay.findings.issue import LARGEST_ATTACHMENT, Attachment

RECORDINGS = ROOT / "recordings"
MISMATCH = RECORDINGS / "dynamo_shape_mismatch.rec"


def manifest_of(name):
    with replay.load(RECORDINGS / f"{name}.rec") as bundle:
        return bundle.manifest


# Markdown


@given(st.text())
def test_a_fence_holds_whatever_text_comes(text):
    lines = fence(text).split("\n")
    ticks = re.match(r"`+", lines[0])[0]
    assert len(ticks) >= 3 and lines[-1] == ticks
    assert all(ticks not in line for line in lines[1:-1])


@given(st.text(min_size=1))
def test_a_span_is_one_line_and_ends_where_it_should(text):
    made = span(text)
    ticks = re.match(r"`+", made)[0]
    inside = made[len(ticks) : -len(ticks)]
    assert "\n" not in made and made.endswith(ticks)
    assert ticks not in re.findall(r"`+", inside.strip(" ") if inside.startswith(" ") else inside)


def test_paths_lose_the_names_of_people():
    text = 'File "/home/ann.lee/net.py", "/Users/bob/x/y.py", C:\\Users\\Carl\\z.py, /root/a.py, /opt/root'
    found = without_people(text)
    assert found == 'File "~/net.py", "~/x/y.py", ~\\z.py, ~/a.py, /opt/root'


def test_long_logs_keep_their_beginning_and_their_end():
    text = "\n".join(f"line {number}" for number in range(1000))
    found = shortened(text, 200)
    assert found.startswith("line 0\n") and found.endswith("\nline 999")
    assert "lines left out" in found and len(found) < 260


# The form


def test_versions_are_the_recordings_and_nothing_is_invented():
    made = manifest_of("cuda_wrong_backward")
    lines = versions(made).split("\n")
    assert "PyTorch version: 2.11.0+cu130" in lines and "Python version: 3.12.3 (CPython)" in lines
    assert "CUDA used to build PyTorch: 13.0" in lines
    assert "GPU models and configuration: NVIDIA H200" in lines
    assert f"GCC version: {UNKNOWN}" in lines and f"Nvidia driver version: {UNKNOWN}" in lines
    assert "Libc version: glibc-2.39" in lines and "[pip3] triton==3.6.0" in lines


def test_the_fields_of_the_versions_are_those_that_collect_env_prints():
    from torch.utils import collect_env

    known = set(re.findall(r"^([^:\n{]+):", collect_env.env_info_fmt, re.MULTILINE))
    asked = ("PyTorch version", "Is debug build", "OS", "GCC version", "Libc version", "Python platform")
    found = {line.partition(":")[0] for line in versions(manifest_of("dynamo_shape_mismatch")).split("\n")}
    assert set(asked) <= known & found


def test_text_of_the_bundle_is_no_markup():
    made = manifest_of("dynamo_shape_mismatch")
    evil = "@octocat #1 ![x](http://x) ````\n<img src=x>\x1b[31m"
    error = replace(made.error, message=evil, type=f"E.{evil}", traceback=evil)
    frame = replace(made.frame, function=evil, file=f"/tmp/{evil}")
    made = replace(made, error=error, frame=frame)
    text = form.fill(made, Attachment(f"{evil}.rec.zip", 3), None, None, evil)
    assert "\x1b" not in text
    outside = without_code(text)
    assert not re.search(r"octocat|http://|<img", outside), outside


def without_code(text):
    """What of a Markdown text stands outside fences and code spans."""
    kept, ticks = [], None
    for line in text.split("\n"):
        found = re.match(r"(`{3,})", line)
        if ticks is None and found:
            ticks = found[1]
        elif ticks is not None and line == ticks:
            ticks = None
        elif ticks is None:
            kept.append(re.sub(r"(`+).*?(?<!`)\1(?!`)", "", line))
    return "\n".join(kept)


def test_a_recompilation_is_told_by_its_guard():
    text = form.fill(manifest_of("recompile_attribute"), Attachment("x.rec.zip", 3), None, None, "no")
    assert "is compiled again under torch.compile" in text and "self.power == 'low'" in text


# The attachment


def test_a_bundle_that_is_too_large_is_said_to_be(tmp_path, monkeypatch):
    monkeypatch.setattr("replay.findings.issue.LARGEST_ATTACHMENT", 1000)
    made = replay.issue(MISMATCH, triage=False, export=False)
    assert not made.attachment.fits
    assert "python -m replay strip" in made.notes[0]
    assert LARGEST_ATTACHMENT == 25 * 1024 * 1024


def test_nothing_is_written_over(tmp_path):
    target = tmp_path / "issue.md"
    (tmp_path / "dynamo_shape_mismatch.rec.zip").write_text("mine")
    with pytest.raises(UsageError, match=r"rec.zip exists.*--force"):
        replay.issue(MISMATCH, target, triage=False, export=False)
    assert not target.exists()
    target.write_text("mine")
    with pytest.raises(UsageError, match=r"issue.md exists.*--force"):
        replay.issue(MISMATCH, target, triage=False, export=False, attach=False)
    assert target.read_text() == "mine"


def test_the_attachment_is_the_bundle_and_opens_under_its_new_name(tmp_path, capsys):
    target = tmp_path / "issue.md"
    assert main(["issue", str(MISMATCH), "-o", str(target), "--no-triage", "--no-export"]) == 0
    copy = tmp_path / "dynamo_shape_mismatch.rec.zip"
    assert copy.read_bytes() == MISMATCH.read_bytes()
    assert replay.load(copy).manifest.frame.function == "attention"
    told = capsys.readouterr().err
    assert "title: [torch.compile] TorchRuntimeError" in told and str(copy) in told


# All of it


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """One bug report, made by the command in a process of its own."""
    folder = tmp_path_factory.mktemp("issue")
    shutil.copy(MISMATCH, folder / "x.rec")
    done = python("-m", "replay", "issue", "x.rec", "-o", "issue.md", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), (folder / "issue.md").read_text(encoding="utf-8")


def test_the_report_has_the_ablation_and_a_verified_reproducer(told):
    data, text = told
    assert data["text"] == text and data["export"]["check"]["same"]
    assert data["triage"]["fault"] == "user_code" and "your own code" in data["notes"][0]
    assert text.index("### 🐛 Describe the bug") < text.index("**Ablation by backend**")
    assert text.index("**Minimal reproducer**") < text.index("### Error logs") < text.index("### Versions")
    assert data["export"]["text"].rstrip("\n") in text


def test_the_report_is_as_the_gold_file(told):
    text = told[1].replace(f"torch-replay {replay.__version__}", "REPLAY")
    text = re.sub(r"(torch `|torch |torch==|PyTorch version: )\d[\w.]*(\+\w+)?", r"\1TORCH", text)
    text = re.sub(r"\n  drift .*", "", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{8}", "FINGERPRINT", text)
    text = re.sub(r" *\b\d+\.\d+(?= s\b| +\d+ +\d+$)", " N", text, flags=re.MULTILINE)
    assert_gold("issue_dynamo_shape_mismatch.md.txt", text)
