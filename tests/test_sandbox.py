"""Bundles that attack: each attack fails in a sandbox; those that can be tried safely succeed without one."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hostile
import pytest
from processes import ROOT

import replay
from replay import isolation
from replay.errors import ReplayError, UsageError
from replay.isolation import metering, results, sandbox
from replay.replayer import boxing

LACKING = isolation.sandbox_lacking()
needs_sandbox = pytest.mark.skipif(bool(LACKING), reason=f"no sandbox here: {LACKING}")

SMALL = 1_500_000_000


@pytest.fixture
def home(tmp_path):
    """Stands for the user's home: a secret, and a server that listens."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "secret").write_text(hostile.SECRET)
    with socket.socket(socket.AF_UNIX) as server:
        before = os.getcwd()
        os.chdir(home)  # the whole path may be too long for a socket
        try:
            server.bind("socket")
        finally:
            os.chdir(before)
        server.listen()
        yield home


@pytest.fixture
def port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def spied(tmp_path, home, port, *, boxed):
    bundle = tmp_path / "hostile.rec"
    assert hostile.write_hostile(tmp_path, hostile.spying(home, port, bundle, boxed=boxed)) == bundle
    bundle.chmod(0o644)
    before = bundle.read_bytes()
    with pytest.raises(ReplayError, match="ended \\(crashed: exit code 3\\)") as refused:
        replay.run(bundle, **({"sandbox": True} if boxed else {"trust": True}), timeout=120)
    return hostile.told(str(refused.value)), bundle.read_bytes() == before


@needs_sandbox
def test_a_hostile_bundle_reaches_nothing_from_a_sandbox(tmp_path, home, port, monkeypatch):
    monkeypatch.setenv("HOSTILE_TOKEN", "ghp_secret")
    version = (ROOT / "replay" / "_version.py").read_bytes()
    told, unchanged = spied(tmp_path, home, port, boxed=True)
    assert told.pop("home") == []
    told.pop("lists")  # of the directory that stands for the home nothing is there
    assert {name: said for name, said in told.items() if not said.startswith("failed: ")} == {}
    assert hostile.SECRET not in str(told)
    assert unchanged
    assert sorted(one.name for one in home.iterdir()) == ["secret", "socket"]
    assert (ROOT / "replay" / "_version.py").read_bytes() == version
    assert not Path("/usr/written-by-a-hostile-bundle").exists()


def test_the_same_bundle_reaches_all_of_it_where_it_is_trusted(tmp_path, home, port, monkeypatch):
    monkeypatch.setenv("HOSTILE_TOKEN", "ghp_secret")
    monkeypatch.setattr(hostile, "SPY", hostile.SPY.replace('"package": tried(', '"package": str('))
    told, unchanged = spied(tmp_path, home, port, boxed=False)
    assert told["reads"] == hostile.SECRET
    assert told["writes"] == told["bundle"] == "wrote"
    assert told["network"] == told["socket"] == "connected"
    assert told["process"] == "reached"
    assert told["token"] == "ghp_secret"
    assert "secret" in told["starts"]
    assert not unchanged
    assert (home / "written").exists()


@pytest.fixture
def small(monkeypatch):
    """Limits that this machine can bear."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(results, "MEMORY_SHARE", SMALL / whole)
    monkeypatch.setattr(metering, "PROCESSES", 32)
    monkeypatch.setattr(metering, "WRITTEN", 100 << 20)


@needs_sandbox
@pytest.mark.parametrize(
    ("code", "ended"),
    [
        (hostile.FORKS, r"processes: (more than )?\d+ processes"),
        (hostile.EATS, r"memory: 1\.[5-9] GB"),
        (hostile.SLEEPS, "after 10 s nothing was compiled yet"),
    ],
    ids=["forks without end", "eats memory", "never ends"],
)
def test_a_hostile_bundle_is_stopped(tmp_path, small, code, ended):
    bundle = hostile.write_hostile(tmp_path, code)
    with pytest.raises(ReplayError, match=ended):
        replay.run(bundle, sandbox=True, timeout=10 if code is hostile.SLEEPS else 120)


def box(code, tmp_path, *, target="act", **how):
    """Run code in a sandbox, without torch."""
    tests = Path(__file__).parent
    within = isolation.Sandbox(readable=(tests,), writable=how.pop("writable", ()))
    path = os.pathsep.join([str(ROOT), str(tests)])
    options = {"environment": {"PYTHONPATH": path}, "timeout": 60, **how}
    return isolation.call_in_sandbox(f"test_isolation:{target}", {"code": code}, within=within, **options)


@needs_sandbox
def test_many_processes_share_the_limit_of_memory(tmp_path, small):
    result = box(hostile.EATS_IN_MANY, tmp_path)
    assert (result.ending, result.reason.endswith(" GB")) == ("memory", True)


@needs_sandbox
def test_writing_without_end_is_stopped(tmp_path, small, monkeypatch):
    assert box(hostile.WRITES, tmp_path).ending == "files"
    one = "import tempfile, os\nopen(os.path.join(tempfile.gettempdir(), 'x'), 'wb').write(bytes(200 << 20))"
    result = box(one, tmp_path)
    # the kernel refuses the one file, unless the meter has ended it before that
    assert result.ending == "files" or (result.ending == "crashed" and "File too large" in result.stderr)
    many = "import tempfile, os\nfor n in range(300): open(os.path.join(tempfile.gettempdir(), str(n)), 'w')"
    monkeypatch.setattr(metering, "ENTRIES", 100)
    assert box(f"{many}\nimport time; time.sleep(30)", tmp_path).reason == "100 files"


DEEP = """
import os, tempfile
os.chdir(tempfile.gettempdir())
for _ in range(3000):
    os.mkdir("deep")
    os.chdir("deep")
os._exit(3)
"""


@needs_sandbox
def test_what_is_hard_to_remove_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    hidden = (
        "import os, tempfile\nd = tempfile.gettempdir() + '/hidden'\nos.mkdir(d)\nos.chmod(d, 0)\nos._exit(3)"
    )
    assert [box(code, tmp_path).ending for code in (DEEP, hidden)] in (["crashed"] * 2, ["files", "crashed"])
    assert list(tmp_path.iterdir()) == []


def test_a_tree_is_measured_whatever_its_depth(tmp_path):
    (tmp_path / "file").write_bytes(bytes(10_000))
    (tmp_path / "link").symlink_to("/")
    taken, entries = metering.size(tmp_path)
    assert (taken >= 10_000, entries) == (True, 2)
    deep = tmp_path / "deep"
    subprocess.run(
        [sys.executable, "-c", DEEP.replace("tempfile.gettempdir()", repr(str(tmp_path)))], check=False
    )
    assert deep.exists()
    assert metering.size(tmp_path)[1] == metering.ENTRIES
    isolation.remove(deep)
    assert not deep.exists()


@needs_sandbox
def test_memory_that_is_in_no_process_counts_too(tmp_path, monkeypatch):
    monkeypatch.setattr(metering, "RESERVE", 1.0)
    result = box("import time; time.sleep(20)", tmp_path)
    assert result.ending == "memory"
    assert result.reason.startswith("the machine had ")


@needs_sandbox
def test_nothing_of_a_sandbox_outlives_it(tmp_path):
    left = tmp_path / "left"
    left.mkdir()
    code = (
        "import os, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(77.125)'], start_new_session=True)\n"
        "if os.fork() == 0:\n    os.setsid()\n    time.sleep(77)\n"
    )
    box(code, tmp_path, writable=(left,))
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "77.125" not in running


@needs_sandbox
def test_a_crash_in_a_sandbox_says_how(tmp_path):
    result = box("import ctypes; ctypes.string_at(0)", tmp_path)
    assert (result.ending, result.reason) == ("crashed", "SIGSEGV")
    assert box("import os; os._exit(3)", tmp_path).reason == "exit code 3"


@needs_sandbox
@pytest.mark.parametrize(
    "left",
    [
        "os.symlink('/etc/hostname', d + '/answer')",
        "os.mkfifo(d + '/answer')",
        "open(d + '/answer', 'wb').write(b'\\xc1')",
        "open(d + '/answer', 'wb').write(b'\\x91' * 100000)",
    ],
    ids=["a link", "a pipe", "no MessagePack", "too deep"],
)
def test_an_answer_that_is_none_is_not_believed(tmp_path, left):
    code = f"import os; from replay import isolation; d = str(isolation.private_directory())\n{left}\nos._exit(0)"
    result = box(code, tmp_path)
    assert (result.ending, result.answer) == ("crashed", None)


@needs_sandbox
def test_what_a_sandbox_shows_cannot_steer_the_terminal(tmp_path, capfd):
    code = "import sys; sys.stderr.write('\\x1b[2Jred \\x9b31m \\u202e\\tover\\rgone \\ud800\\n')"
    box(code.replace("\\ud800", "é"), tmp_path, terminal=True)
    shown = capfd.readouterr().err
    assert "\\x1b[2Jred \\x9b31m \\u202e\tover\\rgone é\n" in shown


@needs_sandbox
def test_nobody_types_into_a_sandbox(tmp_path):
    with pytest.raises(ValueError, match="no keyboard"):
        box("", tmp_path, interactive=True)


@needs_sandbox
def test_a_real_failure_comes_back_in_a_sandbox_and_its_artifacts_come_out(tmp_path):
    made = tmp_path / "made"
    outcome = replay.run(ROOT / "recordings" / "inductor_cpp_compile_error.rec", sandbox=True, artifacts=made)
    assert outcome.status == "reproduced"
    assert outcome.notes[-1] == "replayed in a sandbox, without network and without your files: as asked"
    assert any(name.endswith(".cpp") for name in outcome.artifacts.files)
    assert {one.relative_to(made).as_posix() for one in made.rglob("*") if one.is_file()} == set(
        outcome.artifacts.files
    )


def test_only_plain_files_are_taken_out(tmp_path):
    source, target = tmp_path / "from", tmp_path / "to"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "kept").write_text("x")
    (source / "link").symlink_to("/etc/hostname")
    (source / "folder").symlink_to("/etc")
    os.mkfifo(source / "pipe")
    target.mkdir()
    boxing._copy(source, target, 3)
    assert sorted(one.relative_to(target).as_posix() for one in target.rglob("*")) == ["sub", "sub/kept"]


def test_without_bubblewrap_the_reason_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert isolation.sandbox_lacking().startswith("bubblewrap is ")
    with pytest.raises(UsageError, match="--sandbox: bubblewrap is "):
        replay.run(hostile.write_hostile(tmp_path, "raise SystemExit"), sandbox=True)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_a_bubblewrap_that_does_not_work_is_no_sandbox(monkeypatch, tmp_path):
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert isolation.sandbox_lacking() == (
        "bubblewrap does not work here: bwrap: No permissions to create new namespace"
    )


def test_gpus_are_shown_only_where_they_are_asked_for(monkeypatch, tmp_path):
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(sandbox, "_GPUS", (f"{tmp_path}/nvidia*",))
    monkeypatch.setattr(sandbox, "_help", lambda program: "")
    shown = [
        str(tmp_path / "nvidia0") in sandbox.command(sandbox.Sandbox(gpus=g), tmp_path, [])
        for g in (True, False)
    ]
    assert shown == [True, False]


def test_a_tree_of_processes_is_counted(tmp_path):
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        pytest.skip("this system does not list the children of a process")
    with subprocess.Popen(["sh", "-c", "sleep 30 & sleep 30 & wait"], start_new_session=True) as tree:
        try:
            until = time.monotonic() + 10
            while len(metering.descendants(tree.pid)) < 3 and time.monotonic() < until:
                time.sleep(0.02)
            assert len(metering.descendants(tree.pid)) == 3
        finally:
            os.killpg(tree.pid, 9)
