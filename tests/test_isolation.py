"""Children: whatever becomes of one is data."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from replay import isolation
from replay.isolation import forks, results

# Targets; `call` names them as test_isolation:<name>. This module imports no torch: a child starts in no time.


def echo(request):
    return {
        "got": request,
        "private": str(isolation.private_directory()),
        "var": os.environ.get("REPLAY_TEST"),
    }


def act(request):
    isolation.announce("load")
    isolation.announce(request.get("phase", "run"))
    print("printed to stdout")
    print("printed to stderr", file=sys.stderr, flush=True)
    exec(request["code"], {"__name__": "child"})
    return {"done": True}


def preload(request):
    sys.modules["preloaded"] = request


def is_sound():
    return sys.modules["preloaded"]["sound"]


ways = [
    "fresh",
    pytest.param("forked", marks=pytest.mark.skipif(not forks.AVAILABLE, reason="no sound fork")),
]


@pytest.fixture(params=ways)
def child(request, monkeypatch):
    """Calls a function of this module in a child: `child("echo", {...})`."""
    # a child of the checkout finds `replay` through PYTHONPATH, which `environment` may override
    root = str(Path(isolation.__file__).parent.parent.parent)
    path = os.pathsep.join([root, str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    variables = {"PYTHONPATH": path, "REPLAY_TEST": "yes"}
    if request.param == "fresh":
        monkeypatch.setenv("PYTHONPATH", root)
        yield lambda target, asked, **options: isolation.call(
            f"test_isolation:{target}", asked, **{"environment": variables, "timeout": 60, **options}
        )
        return
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with isolation.ForkServer(
        "test_isolation:preload", {"sound": True}, sound="test_isolation:is_sound"
    ) as server:
        yield lambda target, asked, **options: server.call(
            f"test_isolation:{target}", asked, **{"environment": {}, "timeout": 60, **options}
        )


def test_the_answer_of_a_child_is_plain_data_and_its_directory_goes_away(child):
    request = {"a": [1, 2.5, None, True, "ü", b"\x00\xff"], "b": {"c": "d"}}
    result = child("echo", request)
    assert (result.ending, result.reason) == ("answered", "")
    assert result.answer["got"] == request
    assert result.answer["var"] == "yes"
    assert not Path(result.answer["private"]).exists()
    assert isolation.private_directory() is None


def test_what_a_child_prints_is_kept_and_is_no_answer(child):
    result = child("act", {"code": ""})
    assert result.answer == {"done": True}
    assert "printed to stderr" in result.stderr
    assert "printed to stdout" in result.stderr


@pytest.mark.parametrize(
    ("code", "ending", "reason"),
    [
        ("import os; os._exit(3)", "crashed", "exit code 3"),
        ("import sys; sys.exit(4)", "crashed", "exit code 4"),
        ("raise ValueError('mine')", "crashed", "exit code 1"),
        ("import os; os.abort()", "crashed", "SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "crashed", "SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "crashed", "SIGKILL"),
    ],
)
def test_a_crash_says_how_and_in_which_phase(child, code, ending, reason):
    result = child("act", {"code": code, "phase": "compile"})
    assert (result.ending, result.reason, result.phase, result.answer) == (ending, reason, "compile", None)


def test_the_end_of_a_childs_output_is_kept(child):
    result = child("act", {"code": "raise ValueError('mine' * 5000)"})
    assert len(result.stderr) == results.TAIL
    result = child("act", {"code": "import ctypes; ctypes.string_at(0)"})
    assert "Segmentation fault" in result.stderr  # from faulthandler, with the Python stack
    assert "test_isolation.py" in result.stderr


def test_a_hang_is_stopped_after_the_timeout(child):
    started = time.perf_counter()
    result = child("act", {"code": "import time; time.sleep(60)"}, timeout=1)
    assert (result.ending, result.reason, result.phase) == ("timeout", "1 s", "run")
    assert time.perf_counter() - started < 20


def test_a_child_that_ignores_signals_is_stopped_all_the_same(child):
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    assert child("act", {"code": code}, timeout=1).ending == "timeout"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_a_child_that_takes_too_much_memory_is_stopped(child):
    code = "b = []\nwhile True: b.append(bytearray(8 << 20))"
    result = child("act", {"code": code}, memory=200 << 20)
    assert result.ending == "memory"
    assert result.reason.endswith(" GB")


def test_the_ordinary_memory_limit_is_a_share_of_the_machines(monkeypatch, child):
    monkeypatch.setattr(results, "MEMORY_SHARE", 1e-6)
    assert child("act", {"code": "import time; time.sleep(30)"}).ending == "memory"


@pytest.mark.parametrize("end", ["", "os._exit(3)"])
@pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX")
def test_what_a_child_started_ends_with_it(child, end, tmp_path):
    code = (
        "import os, subprocess, sys\n"
        f"p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))\n{end}"
    )
    child("act", {"code": code})
    assert _gone(int((tmp_path / "pid").read_text()))


def _gone(pid):
    for _ in range(100):
        try:
            if "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]:
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_a_child_that_answers_and_does_not_end_has_answered(child, monkeypatch):
    monkeypatch.setattr(results, "LINGER", 0.5)
    code = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()"
    result = child("act", {"code": code})
    assert (result.ending, result.answer) == ("answered", {"done": True})


def test_an_unknown_target_is_a_crash_before_any_phase(child):
    result = child("nothing", {})
    assert (result.ending, result.phase) == ("crashed", "")
    assert "nothing" in result.stderr


def where(request):
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "preloaded": sys.modules.get("preloaded"),
        "temporary": tempfile.gettempdir(),
    }


@contextmanager
def serving(monkeypatch, *, sound=True, preload="test_isolation:preload"):
    path = [str(Path(isolation.__file__).parent.parent.parent), str(Path(__file__).parent)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]))
    with isolation.ForkServer(preload, {"sound": sound}, sound="test_isolation:is_sound") as server:
        yield lambda target, asked=None, **options: server.call(
            f"test_isolation:{target}", asked, **{"environment": {}, "timeout": 60, **options}
        )


needs_fork = pytest.mark.skipif(not forks.AVAILABLE, reason="no sound fork on this platform")


@needs_fork
def test_forked_children_share_what_was_preloaded_and_nothing_else(monkeypatch):
    with serving(monkeypatch) as call:
        one, two = call("where").answer, call("where").answer
    assert one["preloaded"] == two["preloaded"] == {"sound": True}
    assert one["parent"] == two["parent"] != os.getpid()
    assert one["pid"] == one["session"] != two["pid"]
    assert one["temporary"] != two["temporary"]


@needs_fork
def test_forked_children_run_side_by_side(monkeypatch, tmp_path):
    """Each waits for a file that the other one makes."""
    code = (
        "import pathlib, time\nmine, other = map(pathlib.Path, ({!r}, {!r}))\nmine.touch()\n"
        "while not other.exists(): time.sleep(0.01)"
    )
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    with serving(monkeypatch) as call, ThreadPoolExecutor(2) as threads:
        both = threads.map(lambda pair: call("act", {"code": code.format(*pair)}), [(a, b), (b, a)])
        assert [one.ending for one in both] == ["answered", "answered"]


@needs_fork
def test_a_child_that_dies_leaves_the_server_alive(monkeypatch):
    with serving(monkeypatch) as call:
        died = call("act", {"code": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"})
        after = call("where")
    assert (died.ending, died.reason) == ("crashed", "SIGSEGV")
    assert after.answer["preloaded"] == {"sound": True}


@needs_fork
@pytest.mark.parametrize(
    "broken",
    [{"sound": False}, {"preload": "test_isolation:nothing"}, {"preload": "test_isolation:start_a_thread"}],
)
def test_where_a_fork_would_not_be_sound_the_child_is_a_new_process(monkeypatch, broken):
    with serving(monkeypatch, **broken) as call:
        result = call("where")
    assert (result.ending, result.answer["parent"]) == ("answered", os.getpid())
    assert result.answer["preloaded"] is None


def start_a_thread(request):
    preload({"sound": True})
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


@needs_fork
def test_a_child_with_variables_of_its_own_is_a_new_process(monkeypatch):
    with serving(monkeypatch) as call:
        result = call("echo", {}, environment={"REPLAY_TEST": "mine"})
    assert result.answer["var"] == "mine"


@needs_fork
def test_closing_the_server_ends_its_children(monkeypatch, tmp_path):
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    stop = threading.Event()
    with serving(monkeypatch) as call, ThreadPoolExecutor(1) as threads:
        going = threads.submit(call, "act", {"code": code}, stop=stop)
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        stop.set()
        assert going.result().ending == "stopped"
    assert _gone(int((tmp_path / "pid").read_text()))


def test_a_child_gets_a_temporary_directory_that_goes_away(child, tmp_path):
    code = f"import tempfile; open({str(tmp_path / 'where')!r}, 'w').write(tempfile.mkdtemp())"
    child("act", {"code": code})
    where = Path((tmp_path / "where").read_text())
    assert where.parent.name == "tmp"
    assert not where.parent.parent.exists()


def test_announcing_outside_a_child_does_nothing():
    before = set(os.listdir())
    isolation.announce("run")
    assert set(os.listdir()) == before


def test_an_interrupt_of_the_parent_ends_the_child(child, tmp_path):
    script = tmp_path / "parent.py"
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    script.write_text(
        "import sys, os, signal, threading, time\n"
        f"sys.path[:0] = [{str(Path(__file__).parent.parent)!r}]\n"
        "from replay import isolation\n"
        "threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        f"isolation.call('test_isolation:act', {{'code': {code!r}}}, environment=dict(os.environ))\n"
    )
    tests = str(Path(__file__).parent)
    path = os.pathsep.join([tests, str(Path(__file__).parent.parent)])
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"KeyboardInterrupt" in done.stderr
    assert _gone(int((tmp_path / "pid").read_text()))
