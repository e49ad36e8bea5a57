from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import textwrap
import threading
import traceback
import zipfile
from pathlib import Path

import pytest

from replay import script
from replay.errors import UsageError
from replay.script import Program

ROOT = Path(__file__).parent.parent

# What a program can see of how it was started; the same text is run by Python and by us.
LOOK = """
import sys
main = sys.modules["__main__"]
assert main.__dict__ is globals()
print(sys.argv)
print(sys.path[0])
print(__name__, __file__, __package__, __cached__, __doc__)
print(__spec__ and (__spec__.name, __spec__.origin, __spec__.parent), type(__loader__).__name__)
print(type(__builtins__).__name__, sorted(set(globals()) - {"main"}))
"""

# The driver stands where `python` stands; everything after it is what `python` was given.
DRIVER = """
import sys
sys.path.append({root!r})
from replay import script
words = sys.argv[1:]
module = words[0] == "-m"
program = script.Program(words[module], tuple(words[module + 1:]), module)
try:
    with script.prepared(program) as start:
        start()
except BaseException as error:
    sys.stdout.flush()
    code, text = script.exit_code_of(error)
    if not isinstance(error, SystemExit):
        own = script.strip_own_frames(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(own), own)
    elif text is not None:
        print(text, file=sys.stderr)
    sys.exit(code)
"""


def run_python(folder, *words):
    return subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def run_ours(folder, *words):
    driver = folder.parent / "driver.py"
    driver.write_text(DRIVER.format(root=str(ROOT)))
    return run_python(folder, str(driver), *words)


def without_runpy(text):
    """Python's traceback for -m names its own runpy first; ours begins at the program."""
    lines = text.splitlines(keepends=True)
    kept, skip = [], False
    for line in lines:
        if line.startswith("  File "):
            skip = "runpy" in line
        if not skip or not line.startswith("  "):
            kept.append(line)
    return "".join(kept)


def assert_same(folder, *words):
    python, ours = run_python(folder, *words), run_ours(folder, *words)
    assert (ours.stdout, ours.returncode) == (python.stdout, python.returncode)
    assert ours.stderr == without_runpy(python.stderr)
    return ours


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "work"
    made.mkdir()
    return made


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_a_script_sees_what_python_would_show_it(folder):
    write(folder, "sub/look.py", LOOK)
    assert_same(folder, "sub/look.py", "--flag", "-m", "--", "x y")
    assert_same(folder, "../work/sub/look.py")
    assert_same(folder, str(folder / "sub/look.py"))


def test_a_linked_script_finds_the_modules_beside_its_target(folder):
    write(folder, "real/look.py", LOOK)
    (folder / "link.py").symlink_to(folder / "real/look.py")
    assert_same(folder, "link.py")


def test_a_module_a_package_and_a_submodule_see_what_python_would_show_them(folder):
    write(folder, "pkg/__init__.py", "import sys; print('init', sys.argv, sys.path[0])")
    write(folder, "pkg/__main__.py", LOOK)
    write(folder, "pkg/part.py", LOOK)
    write(folder, "alone.py", LOOK)
    for name in ("alone", "pkg.part", "pkg"):
        assert_same(folder, "-m", name, "-x", "--", "-m")


def test_a_directory_and_a_zip_file_run_their_main(folder):
    write(folder, "app/__main__.py", LOOK + "import beside\n")
    write(folder, "app/beside.py", "print('beside', __file__)")
    with zipfile.ZipFile(folder / "app.zip", "w") as archive:
        archive.write(folder / "app/__main__.py", "__main__.py")
        archive.write(folder / "app/beside.py", "beside.py")
    assert_same(folder, "app", "a")
    assert_same(folder, "app.zip", "a")


def test_a_compiled_file_runs(folder):
    source = write(folder, "look.py", LOOK)
    py_compile.compile(str(source), cfile=str(folder / "look.pyc"), doraise=True)
    assert_same(folder, "look.pyc")


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    1 / 0\nprint('x')\nf()",
        "def f(:\n",
        "import json\njson.loads('{')",
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('y') from e",
        "import sys; sys.exit(7)",
        "import sys; sys.exit()",
        "import sys; sys.exit('a word')",
        "import sys; sys.exit((1, 2))",
        "import sys\nsys.excepthook = lambda *error: print('mine', error[0].__name__)\n1 / 0",
        "# coding: latin-1\nraise ValueError('ü')",
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()\nprint('end')",
        "import missing_module",
        "class E(BaseException): pass\nraise E('base')",
    ],
)
def test_a_program_ends_as_under_python(folder, text):
    write(folder, "program.py", text)
    assert_same(folder, "program.py")


def test_a_module_that_raises_shows_its_own_frames(folder):
    write(folder, "pkg/__init__.py", "")
    write(folder, "pkg/__main__.py", "def f():\n    1 / 0\nf()")
    ours = assert_same(folder, "-m", "pkg")
    assert "runpy" not in ours.stderr
    assert "script.py" not in ours.stderr


def test_an_error_in_a_parent_package_is_the_programs(folder):
    write(folder, "pkg/__init__.py", "import not_there")
    write(folder, "pkg/part.py", "")
    ours = run_ours(folder, "-m", "pkg.part")
    assert ours.returncode == 1
    assert "No module named 'not_there'" in ours.stderr


def test_classes_of_the_program_pickle_as_those_of_main(folder):
    text = "import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))) is C, C.__module__)"
    write(folder, "program.py", text)
    assert assert_same(folder, "program.py").stdout == "True __main__\n"


def test_isolated_python_keeps_the_scripts_folder_off_the_path(folder):
    write(folder, "program.py", "import sys; print(sys.path[0])")
    driver = folder.parent / "driver.py"
    driver.write_text(DRIVER.format(root=str(ROOT)))
    ours = run_python(folder, "-I", str(driver), "program.py")
    assert ours.stdout == run_python(folder, "-I", "program.py").stdout


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (Program("nope.py"), "no such script: 'nope.py'"),
        (Program("."), "is a directory without __main__.py"),
        (Program("not_a_module_x", (), True), "no module named 'not_a_module_x'"),
        (Program("not_a_module_x.y", (), True), "no module named 'not_a_module_x.y'"),
        (Program("email", (), True), "is a package without __main__"),
        (Program("sys", (), True), "has no code that can be run"),
        (Program("a..b", (), True), "no module named 'a..b'"),
    ],
)
def test_a_program_that_is_not_there_is_a_usage_error(program, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message.replace(".", r"\.")), script.prepared(program):
        pass


def test_everything_is_put_back_after_the_block(tmp_path):
    path = write(tmp_path, "program.py", "import sys; sys.argv.append('x'); sys.path.append('y'); z = 1")
    before = (sys.argv, list(sys.argv), sys.path, list(sys.path), sys.modules["__main__"])
    with script.prepared(Program(str(path))) as start:
        start()
        assert sys.modules["__main__"].z == 1
        assert sys.argv == [str(path), "x"]
    assert (sys.argv, list(sys.argv), sys.path, list(sys.path), sys.modules["__main__"]) == before


def test_an_exception_comes_out_as_the_same_object_and_stripped_of_our_frames(tmp_path):
    path = write(tmp_path, "program.py", "def f():\n    raise ValueError('x')\nf()")
    with pytest.raises(ValueError, match="x") as caught, script.prepared(Program(str(path))) as start:
        start()
    stripped = traceback.extract_tb(script.strip_own_frames(caught.value.__traceback__))
    assert [(frame.filename, frame.name) for frame in stripped] == [(str(path), "<module>"), (str(path), "f")]


def test_a_traceback_that_is_not_ours_stays_whole():
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / 0
    assert script.strip_own_frames(caught.tb) is caught.tb
    assert script.strip_own_frames(None) is None


def test_no_thread_is_waited_for_after_an_exception(tmp_path):
    path = write(
        tmp_path,
        "program.py",
        "import threading\ndone = threading.Event()\nthreading.Thread(target=done.wait).start()\n1 / 0",
    )
    with script.prepared(Program(str(path))) as start:
        with pytest.raises(ZeroDivisionError):
            start()
        sys.modules["__main__"].done.set()
    assert threading.main_thread().is_alive()


def test_exit_codes_are_pythons():
    ends = [
        KeyboardInterrupt(),
        ValueError(),
        SystemExit(),
        SystemExit(4),
        SystemExit("w"),
        SystemExit(False),
    ]
    assert [script.exit_code_of(end) for end in ends] == [
        (130, None),
        (1, None),
        (0, None),
        (4, None),
        (1, "w"),
        (False, None),
    ]


def test_no_cache_is_written_for_a_script(folder):
    write(folder, "program.py", "pass")
    run_ours(folder, "program.py")
    assert sorted(os.listdir(folder)) == ["program.py"]
