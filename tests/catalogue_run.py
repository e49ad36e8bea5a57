"""The catalogue: each kind of thing that a frame holds, and each way of failing, recorded and replayed elsewhere.

    python tests/catalogue_run.py                     run all, write docs/coverage.md
    python tests/catalogue_run.py holds/enums ...     run these; print what was found
    python tests/catalogue_run.py --record-with PYTHON --replay-with PYTHON ...     with other versions; print

A program of tests/catalogue is a whole script. One process records all of them, from a copy; the copy and the
packages that they import are deleted; another process, in an empty directory, replays the bundles. What the
lines at the top of a program mean is in tests/catalogue/README.md. Assertions are in test_coverage.py.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent
CATALOGUE = TESTS / "catalogue"
TABLE = TESTS.parent / "docs" / "coverage.md"
SECTIONS = {
    "fails": "However it fails",
    "holds": "Whatever it holds",
    "elsewhere": "Wherever it is replayed",
}
HEADER = re.compile(
    r"^# (record|replay|expects|package|project|needs|names|warns|note|patience|hides): *(.+?) *$",
    re.MULTILINE,
)
PATIENCE = 900  # seconds for each of the two processes


@dataclass(frozen=True)
class Program:
    """One script, and what the lines at its top ask for."""

    name: str  # "holds/enums"
    title: str
    record: dict = field(default_factory=dict)
    replay: dict = field(default_factory=dict)
    expects: str = "reproduced"
    packages: tuple[str, ...] = ()  # installed while recording
    projects: tuple[str, ...] = ()  # the user's own, on the path while recording
    needs: tuple[str, ...] = ()  # modules without which it cannot run
    names: tuple[str, ...] = ()  # what the outcome must call missing
    warns: str = ""  # what a RecordingWarning must say
    note: str = ""
    patience: float | None = (
        None  # seconds that the recorder gives to one call of the program's, if not its own
    )
    hides: tuple[str, ...] = ()  # modules that cannot be imported on replay

    @property
    def absent(self) -> str:
        """The first module that it needs and that is not here."""
        return next((name for name in self.needs if importlib.util.find_spec(name) is None), "")


@dataclass(frozen=True)
class Row:
    """One row of the table. `test`: which test shows it, for what needs processes of its own."""

    section: str
    title: str
    stage: str
    recorded: str
    replayed: str
    same_text: str
    note: str = ""
    test: str = ""


TESTED_ELSEWHERE: tuple[Row, ...] = (
    Row(
        section="fails",
        title="The process dies while a frame is compiled, run or differentiated (`crash_safe=True`)",
        stage="backend, runtime",
        recorded="yes",
        replayed="reproduced",
        same_text="-",
        test="tests/test_precaution.py::test_the_replaying_process_dies_as_well_and_that_is_reproduced",
    ),
    Row(
        section="fails",
        title='The wrong `neg` of the tutorial on Inductor\'s CPU backend (`on="accuracy"`)',
        stage="accuracy",
        recorded="yes",
        replayed="reproduced",
        same_text="yes",
        test="tests/test_accuracy.py::test_the_tutorials_wrong_neg_is_reproduced_with_the_measured_error",
    ),
    Row(
        section="fails",
        title="Frames in processes that were forked or spawned: DataLoader workers, `torch.multiprocessing.spawn`",
        stage="dynamo",
        recorded="yes",
        replayed="reproduced",
        same_text="yes",
        test="tests/test_reach.py::test_what_children_recorded_is_reproduced",
    ),
    Row(
        section="fails",
        title="Two gloo ranks, each with failures of its own: collectives, groups, a mesh, DDP",
        stage="dynamo",
        recorded="yes",
        replayed="reproduced",
        same_text="yes",
        test="tests/test_reach.py::test_each_rank_is_reproduced_alone_with_its_own_text",
    ),
    Row(
        section="holds",
        title="An operator of a C++ extension, traced: its schema and fake travel",
        stage="dynamo",
        recorded="yes",
        replayed="reproduced",
        same_text="yes",
        test="tests/test_extension_operators.py::test_a_frame_that_is_only_traced_is_reproduced_without_the_extension",
    ),
    Row(
        section="holds",
        title="An operator of a C++ extension whose kernel the frame runs",
        stage="runtime",
        recorded="yes",
        replayed="missing",
        same_text="-",
        test="tests/test_extension_operators.py::test_a_frame_that_runs_the_kernel_names_it_as_missing",
    ),
    Row(
        section="elsewhere",
        title="Recorded on a GPU: devices in the code, autocast, a branch on a value, a wrong backward",
        stage="dynamo, aot_autograd",
        recorded="yes",
        replayed="reproduced",
        same_text="of another torch",
        test="tests/test_recordings.py::test_a_recording_is_reproduced_with_the_same_type_and_text",
    ),
    Row(
        section="elsewhere",
        title="Recorded on a GPU: Triton kernels, also autotuned, traced, and run by Triton's interpreter",
        stage="dynamo, runtime",
        recorded="yes",
        replayed="reproduced",
        same_text="of another torch",
        test="tests/test_recordings.py::test_a_recording_is_reproduced_with_the_same_type_and_text",
    ),
    Row(
        section="elsewhere",
        title="Recorded on a GPU: a Triton kernel that Inductor cannot compile for it",
        stage="inductor",
        recorded="yes",
        replayed="missing",
        same_text="-",
        test="tests/test_recordings.py::test_a_recording_that_needs_a_gpu_says_what_is_missing",
    ),
)
"""Rows of programs that need processes of their own; `test` is "tests/test_x.py::test_name"."""


def programs() -> dict[str, Program]:
    """All programs of the catalogue, by name, in the order of the table."""
    paths = [path for section in SECTIONS for path in sorted((CATALOGUE / section).glob("*.py"))]
    return {found.name: found for found in map(_program, paths)}


def _program(path: Path) -> Program:
    text = path.read_text(encoding="utf-8")
    title = ast.get_docstring(ast.parse(text))
    lines: dict[str, list[str]] = {}
    for key, value in HEADER.findall(text):
        lines.setdefault(key, []).append(value)

    def words(key: str) -> tuple[str, ...]:
        return tuple(word.strip() for line in lines.get(key, []) for word in line.split(","))

    return Program(
        name=f"{path.parent.name}/{path.stem}",
        title=" ".join((title or "").split()).rstrip("."),
        record=json.loads(lines.get("record", ["{}"])[0]),
        replay=json.loads(lines.get("replay", ["{}"])[0]),
        expects=lines.get("expects", ["reproduced"])[0],
        packages=words("package"),
        projects=words("project"),
        needs=words("needs"),
        names=tuple(lines.get("names", [])),
        warns=lines.get("warns", [""])[0],
        note=" ".join(lines.get("note", [])),
        patience=float(lines["patience"][0]) if "patience" in lines else None,
        hides=words("hides"),
    )


# Recording and replaying. Each runs as a program in its own process.


def run(
    chosen: list[Program], recording: str = sys.executable, replaying: str = sys.executable
) -> dict[str, dict]:
    """Record and replay, with these Pythons; what was found, by name."""
    with tempfile.TemporaryDirectory(prefix="replay-catalogue-") as folder:
        place, bundles, empty = Path(folder, "place"), Path(folder, "bundles"), Path(folder, "empty")
        for directory in (bundles, empty):
            directory.mkdir()
        _lay_out(chosen, place)
        names = [one.name for one in chosen if not one.absent]
        recorded = _in_process(recording, place, "record", str(bundles), *names)
        shutil.rmtree(place)
        replayed = _in_process(replaying, empty, "replay", str(bundles))
        left = sorted(path.name for path in empty.iterdir())
        for name, found in recorded.items():
            found["outcomes"] = replayed.get(name, [])
            found["left"] = left
        return recorded


def _lay_out(chosen: list[Program], place: Path) -> None:
    """A user's directory with the programs and projects, and an installation with the packages."""
    shutil.copytree(CATALOGUE, place, ignore=shutil.ignore_patterns("packages", "projects", "__pycache__"))
    installed = place / "lib" / "site-packages"
    installed.mkdir(parents=True)
    for name in {name for one in chosen for name in one.packages}:
        shutil.copytree(CATALOGUE / "packages" / name, installed / name)
        information = installed / f"{name}-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (information / "top_level.txt").write_text(name)
    for name in {name for one in chosen for name in one.projects}:
        shutil.copytree(CATALOGUE / "projects" / name, place / "src" / name)


def _in_process(python: str, directory: Path, verb: str, bundles: str, *names: str) -> dict:
    path = [str(TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    with tempfile.TemporaryDirectory(prefix="replay-catalogue-") as folder:
        result = Path(folder, "result.json")
        done = subprocess.run(
            [python, str(Path(__file__).resolve()), verb, bundles, str(result), *names],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        if done.returncode or not result.exists():
            raise RuntimeError(f"the {verb}ing process ended with {done.returncode}:\n{done.stderr[-6000:]}")
        return json.loads(result.read_text(encoding="utf-8"))


def record_all(bundles: str, result: str, *names: str) -> None:
    """The recording process: runs the programs of the current directory, each as `__main__`."""
    import torch

    sys.path[:0] = [str(Path.cwd() / "src"), str(Path.cwd() / "lib" / "site-packages")]
    found = {}
    for name in names:
        print("recording", name, file=sys.stderr, flush=True)
        torch._dynamo.reset()
        found[name] = _record(Path(bundles, name), _program(Path.cwd() / f"{name}.py"))
    Path(result).write_text(json.dumps(found), encoding="utf-8")


def _record(target: Path, program: Program) -> dict:
    import runpy
    import warnings

    import replay
    from replay.shipping import patience

    error, rec, usual = None, replay.record(target, **program.record), patience.SECONDS
    patience.SECONDS = program.patience or usual
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with rec:
                runpy.run_path(f"{program.name}.py", run_name="__main__")
        except Exception as raised:
            error = raised
    patience.SECONDS = usual
    told = [str(one.message) for one in caught if issubclass(one.category, replay.errors.RecordingWarning)]
    return {
        "bundles": [str(path) for path in rec.bundles],
        "lost": rec.lost,
        "warnings": told,
        "error": f"{type(error).__name__}: {error}" if error else "",
    }


def replay_all(bundles: str, result: str) -> None:
    """The replaying process: nothing of the catalogue is on its path."""
    import torch

    sys.path[:] = [path for path in sys.path if Path(path).resolve() != TESTS]
    found: dict[str, list] = {}
    for path in sorted(Path(bundles).glob("*/*/*.rec")):
        name = f"{path.parent.parent.name}/{path.parent.name}"
        print("replaying", name, file=sys.stderr, flush=True)
        torch._dynamo.reset()
        found.setdefault(name, []).append(_replay(path, _program(CATALOGUE / f"{name}.py")))
    Path(result).write_text(json.dumps(found), encoding="utf-8")


def _replay(path: Path, program: Program) -> dict:
    from dataclasses import asdict

    import replay

    with replay.load(path) as bundle:
        event = bundle.manifest.event
        lacking = [asdict(one) for one in bundle.manifest.missing]
        lacking += [{**asdict(one), "reason": "left out"} for one in bundle.manifest.left_out]
        reason = bundle.manifest.reason
    try:
        with _hidden(program.hides):
            outcome = asdict(replay.run(path, **{"isolate": False, "trust": True, **program.replay}))
    except Exception as error:
        return {"event": event, "status": f"raised {type(error).__name__}: {error}", "lacking": lacking}
    return {"event": event, "lacking": lacking, "recorded_reason": reason, **outcome}


@contextlib.contextmanager
def _hidden(names: tuple[str, ...]):
    """While inside, these packages are as if they were not installed."""
    tops = [name for name in sys.modules if name.partition(".")[0] in names]
    before = {name: sys.modules.pop(name) for name in tops}
    sys.modules.update(dict.fromkeys(names))  # None: the import system raises ModuleNotFoundError
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)


# Reading what was found.


def problems(program: Program, found: dict) -> list[str]:
    """What is not as the program expects; nothing if all is."""
    if not found["bundles"]:
        return [
            f"no bundle was made; the program ended with {found['error'] or 'no error'}",
            *found["warnings"],
        ]
    wrong = [f"{found['lost']} failures were lost"] * bool(found["lost"])
    if program.warns and not any(program.warns in one for one in found["warnings"]):
        wrong.append(f"no warning says {program.warns!r}: {found['warnings']}")
    if not program.warns:
        wrong += [f"it warned: {one}" for one in found["warnings"]]
    if found["left"]:
        wrong.append(f"the replay left files: {found['left']}")
    for outcome in found["outcomes"]:
        wrong += _wrong(program, outcome)
    return wrong


def _wrong(program: Program, outcome: dict) -> list[str]:
    error, recorded = outcome.get("error"), outcome.get("recorded_error")
    missing = [*outcome.get("missing", ()), *outcome["lacking"]]
    wrong = []
    if outcome["status"] != program.expects:
        wrong.append(f"{outcome['status']} instead of {program.expects}")
    if program.expects == "reproduced" and not same_text(outcome):
        wrong.append(f"recorded: {(recorded or {}).get('message')}\nreplayed: {(error or {}).get('message')}")
    if program.expects == "missing" and not missing:
        wrong.append("it does not say what is missing")
    wrong += [f"it does not name {name!r}" for name in program.names if not _names(missing, name)]
    if wrong:
        trace = (error or {}).get("traceback", "").splitlines()[-12:]
        wrong.append("\n".join([f"missing: {missing}", f"notes: {outcome.get('notes')}", *trace]))
    return wrong


def _names(missing: list[dict], name: str) -> bool:
    return any(name in f"{one['name']} {one['type']} {one['reason']}" for one in missing)


def same_text(outcome: dict) -> bool:
    """Whether the message that was recorded came again."""
    from replay import fingerprint

    error, recorded = outcome.get("error"), outcome.get("recorded_error")
    if outcome["event"] == "recompile":
        texts = [
            outcome[key].partition(": ")[2] for key in ("recorded_reason", "reason")
        ]  # after the compile id
        return bool(texts[0]) and texts[0] == texts[1]
    return bool(error and recorded) and fingerprint.same_text(recorded["message"], error["message"])


def row(program: Program, found: dict) -> Row:
    """The program's row of the table."""
    outcomes = found["outcomes"]
    stages = [(one.get("recorded_error") or {}).get("stage") or one["event"] for one in outcomes]
    named = ", ".join(f"`{name}`" for name in program.names)
    texts = ["yes" if same_text(one) else "no" for one in outcomes if one["status"] == "reproduced"]
    note = "; ".join(part for part in (program.note, f"names {named}" if named else "") if part)
    return Row(
        section=program.name.partition("/")[0],
        title=program.title,
        stage=_all(stages),
        recorded="yes" if found["bundles"] else "no",
        replayed=_all([one["status"] for one in outcomes]),
        same_text=_all(texts),
        note=note,
    )


def _all(values: list[str]) -> str:
    return ", ".join(dict.fromkeys(values)) or "-"


# The table.

INTRODUCTION = """# What can be recorded, and replayed elsewhere

Each row is a program of `tests/catalogue` that fails under `torch.compile`, over the thing that the row names. All
were recorded in one process. Then the programs, and the packages that they import, were deleted. Another process,
in an empty directory, replayed the bundles.

- **stage**: where it failed, in the words of `replay`.
- **replayed elsewhere**: the status of the replay. `reproduced` is the recorded failure again. `missing` is the
  expected answer where a replay needs what cannot travel; it is named. A program that fails in no way is `passed`.
- **same text**: the message is the recorded one, word for word. The messages hold values that were computed from
  the thing, so that an empty stand-in would not pass.

This file is generated: by `python tests/catalogue_run.py`, with {versions}, on a machine
without a GPU. `tests/test_coverage.py` runs the same programs, on every version that the tests run on, and compares
this file where the versions are these. Rows that name a test need processes of their own.
"""
COLUMNS = ("what", "stage", "recorded", "replayed elsewhere", "same text", "note")


def versions() -> str:
    """The versions that the table was made with; no more of them than matters."""
    from importlib import metadata

    torch = ".".join(metadata.version("torch").split(".")[:2])
    return f"Python {sys.version_info.major}.{sys.version_info.minor} and torch {torch}"


def table(found: dict[str, dict], before: str = "") -> str:
    """docs/coverage.md. A program that cannot run here keeps its row of `before`."""
    rows: list[tuple[str, str]] = []
    for name, program in programs().items():
        if name in found:
            made = row(program, found[name])
            rows.append((made.section, _line(made)))
        else:
            rows.append((name.partition("/")[0], _kept(program, before)))
    rows += [(one.section, _line(one)) for one in TESTED_ELSEWHERE]
    text = INTRODUCTION.format(versions=versions())
    for section, title in SECTIONS.items():
        lines = [line for of, line in rows if of == section]
        if lines:
            head = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
            text += f"\n## {title}\n\n{head}" + "".join(f"{line}\n" for line in lines)
    return text


def _line(made: Row) -> str:
    shown = f"`{made.test}`" if made.test else ""
    note = "; ".join(part for part in (made.note, shown) if part)
    cells = (made.title, made.stage, made.recorded, made.replayed, made.same_text, note)
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _kept(program: Program, before: str) -> str:
    start = f"| {program.title} |"
    kept = next((line for line in before.splitlines() if line.startswith(start)), None)
    return kept or f"{start} - | - | - | - | not run: needs {', '.join(program.needs)} |"


def main(arguments: list[str]) -> int:
    """The command line."""
    if arguments[:1] in (["record"], ["replay"]):
        {"record": record_all, "replay": replay_all}[arguments[0]](*arguments[1:])
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", nargs="*", help="holds/NAME or fails/NAME; without any, all")
    for verb in ("record", "replay"):
        parser.add_argument(f"--{verb}-with", metavar="PYTHON", default=sys.executable, help="another Python")
    options = parser.parse_args(arguments)
    known = programs()
    unknown = [name for name in options.program if name not in known]
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; there are: {', '.join(known)}")
    chosen = [known[name] for name in options.program] or list(known.values())
    found = run(chosen, options.record_with, options.replay_with)
    wrong = {name: problems(known[name], one) for name, one in found.items()}
    for name, one in found.items():
        print(_line(row(known[name], one)))
        for problem in wrong[name]:
            print(f"  PROBLEM of {name}: {problem}")
    if not options.program and options.record_with == options.replay_with == sys.executable:
        before = TABLE.read_text(encoding="utf-8") if TABLE.exists() else ""
        TABLE.write_text(table(found, before), encoding="utf-8")
    return int(any(wrong.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
