"""The version matrix: record every program under each Python and torch, replay each recording under each other.

    python tests/matrix.py PYTHON PYTHON ...          writes docs/matrix.md
    python tests/matrix.py --work DIR PYTHON ...      keeps the bundles and outcomes in DIR; a second call reuses them

Each PYTHON is an interpreter with its own torch and with replay's requirements. The programs are those of
recordings/ that need no GPU, and those of tests/catalogue/ whose failure should come again. One process records all
of an interpreter, one replays all of a pair, with a fork for each program, so that none disturbs another. This takes
half an hour, so no test runs it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import catalogue_run as catalogue

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 120  # characters of a message on the page
PAGE = ROOT / "docs" / "matrix.md"
SECONDS = 300  # for one program; then it counts as "hangs"


# The worker's side: runs under the interpreter that is asked about.


def record_all(options: dict[str, dict[str, Any]], out: Path) -> dict[str, Any]:
    """Record each program of the current directory, in a fork of its own."""
    import torch
    import torch._dynamo

    import replay

    sys.path[:0] = [str(Path(folder).resolve()) for folder in ("recordings", "src", "lib/site-packages")]
    found = {name: in_fork(lambda n=name: record_one(replay, n, options[n], out / n)) for name in options}
    return {"python": sys.version.split()[0], "torch": torch.__version__, "programs": found}


def record_one(replay: Any, name: str, options: dict[str, Any], out: Path) -> dict[str, Any]:
    for module in options["needs"]:
        if importlib.util.find_spec(module) is None:
            return {"bundles": [], "error": f"needs {module}"}
    error = None
    recorder = replay.record(out, **options["record"])
    try:
        with recorder:
            runpy.run_path(f"{name}.py", run_name="__main__")
    except Exception as raised:
        error = f"{type(raised).__qualname__}: {str(raised).strip()[:300]}"
    bundles = [str(one) for one in recorder.bundles]
    core = None
    if len(bundles) == 1:
        with replay.load(bundles[0]) as bundle:
            failure = bundle.manifest.error
            signature = bundle.manifest.signature if failure is None else failure.fingerprint
            core = signature.partition("-")[0]
    return {"bundles": bundles, "error": error, "core": core}


def replay_all(recorded: dict[str, Any], options: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Replay each bundle in a fork of its own, from an empty directory."""
    import torch
    import torch._dynamo

    import replay

    os.chdir(tempfile.mkdtemp(prefix="replay-matrix-"))
    found = {}
    for name, one in recorded["programs"].items():
        if len(one.get("bundles", ())) == 1:
            bundle, given = one["bundles"][0], options[name]["replay"]
            found[name] = in_fork(lambda b=bundle, g=given: replay_one(replay, b, g))
    return {"torch": torch.__version__, "outcomes": found}


def replay_one(replay: Any, bundle: str, options: dict[str, Any]) -> dict[str, Any]:
    try:
        outcome = replay.run(bundle, **{"isolate": False, "trust": True, **options})
    except replay.ReplayError as error:
        return {"status": "refused", "why": f"{type(error).__name__}: {error}"}
    error = outcome.error
    lacking = "; ".join(f"{one.name}: {one.reason}" for one in outcome.missing)
    return {
        "status": outcome.status,
        "why": lacking if outcome.status == "missing" else "" if error is None else headline(error),
        "unknown": [one.name for one in outcome.drift if one.here == "unknown to this torch"],
    }


def headline(error: Any) -> str:
    return f"stage {error.stage}, {error.type}: {(error.message.splitlines() or [''])[0]}"


def in_fork(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of `work`, run in a forked child; how the child ended where it gives none."""
    handle, file = tempfile.mkstemp()
    os.close(handle)
    child = os.fork()
    if child == 0:
        try:
            Path(file).write_text(json.dumps(work()), encoding="utf-8")
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    status = wait(child)
    text = Path(file).read_text(encoding="utf-8")
    os.unlink(file)
    return json.loads(text) if text else {"status": "died", "why": status}


def wait(child: int) -> str:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return f"ended by signal {status}" if os.WIFSIGNALED(status) else "raised"
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return f"hangs for {SECONDS} s"


# The side that asks: needs no torch.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pythons", nargs="*", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--worker", nargs=2, metavar=("JOB", "ANSWER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*map(Path, options.worker))
        return
    if len(options.pythons) < 2:
        parser.error("give two interpreters at least, each with its own torch")
    folder = options.work or Path(tempfile.mkdtemp(prefix="replay-matrix-"))
    recorded, replayed = measure(options.pythons, folder)
    PAGE.write_text(page(recorded, replayed), encoding="utf-8")
    print(PAGE)


def work(job: Path, answer: Path) -> None:
    request = json.loads(job.read_text(encoding="utf-8"))
    if request["job"] == "record":
        found = record_all(request["options"], Path(request["out"]))
    else:
        found = replay_all(request["recorded"], request["options"])
    answer.write_text(json.dumps(found), encoding="utf-8")


def programs() -> dict[str, dict[str, Any]]:
    """How each program is recorded and replayed, by name: those of which a reproduced failure is expected."""
    found = {
        f"recordings/{path.stem}": {"record": asked(path), "replay": {}, "needs": []}
        for path in sorted((ROOT / "recordings").glob("*.py"))
        if not path.stem.startswith("cuda_") and path.stem != "make"
    }
    for name, one in catalogue.programs().items():
        if one.expects == "reproduced" and not (one.hides or one.patience or one.warns):
            found[name] = {"record": one.record, "replay": one.replay, "needs": list(one.needs)}
    return found


def asked(path: Path) -> dict[str, Any]:
    line = re.search(r"^# record: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return json.loads(line[1]) if line else {}


def measure(pythons: list[Path], folder: Path) -> tuple[list[Any], dict[tuple[int, int], Any]]:
    """What each interpreter recorded, and what each made of each other's recordings."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    place, empty, options = folder / "place", folder / "empty", programs()
    shutil.rmtree(place, ignore_errors=True)
    catalogue._lay_out(list(catalogue.programs().values()), place)
    shutil.copytree(
        ROOT / "recordings", place / "recordings", ignore=shutil.ignore_patterns("*.rec", "__py*")
    )
    empty.mkdir(exist_ok=True)
    recorded = []
    for i, python in enumerate(pythons):
        job = {"job": "record", "options": options, "out": str(folder / f"by{i}")}
        recorded.append(ask(python, job, folder / f"recorded{i}", place))
    shutil.rmtree(place)  # the replays do without the programs and their packages
    replayed = {}
    for i in range(len(pythons)):
        for j, python in enumerate(pythons):
            job = {"job": "replay", "recorded": recorded[i], "options": options}
            replayed[i, j] = ask(python, job, folder / f"replayed{i}-{j}", empty)
    return recorded, replayed


def ask(python: Path, request: dict[str, Any], stem: Path, directory: Path) -> Any:
    """Run a worker under an interpreter, or take the answer that an earlier call left."""
    job, answer = stem.with_suffix(".job"), stem.with_suffix(".json")
    if not answer.exists():
        job.write_text(json.dumps(request), encoding="utf-8")
        with open(stem.with_suffix(".log"), "wb") as log:
            started = time.monotonic()
            subprocess.run(
                [str(python.absolute()), str(Path(__file__).resolve()), "--worker", str(job), str(answer)],
                cwd=directory,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "TORCHINDUCTOR_COMPILE_THREADS": "1",
                },
                stdout=log,
                stderr=log,
                check=True,
            )
        print(f"{stem.name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return json.loads(answer.read_text(encoding="utf-8"))


# The page.


def page(recorded: list[Any], replayed: dict[tuple[int, int], Any]) -> str:
    names = [f"Python {minor(one['python'])}, torch {one['torch'].partition('+')[0]}" for one in recorded]
    short = [minor(one["torch"]) for one in recorded]
    cells = {pair: judge(recorded, replayed, *pair) for pair in replayed}
    lines = [
        "# Version matrix",
        "",
        "Each program was recorded under each Python and torch, and each recording replayed under each, where",
        "neither the program nor its packages are. A cell counts the recordings that are reproduced (the same",
        "fingerprint) out of those whose failure exists under both: recorded there, the program fails in the same way.",
        "`tests/matrix.py` makes this page; `CONTRIBUTING.md` says how.",
        "",
        f"{len(recorded[0]['programs'])} programs, on Linux, without a GPU. Below, 2.9 → 2.13 reads: recorded under",
        "torch 2.9 and the Python beside it in the table, replayed under torch 2.13 and its Python.",
        "",
        "| recorded under | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for i, name in enumerate(names):
        counts = [f"{len(cells[i, j]['good'])} of {cells[i, j]['shared']}" for j in range(len(names))]
        lines.append(f"| {name} | " + " | ".join(counts) + " |")
    lines += ["", "## Not reproduced, though the failure exists under both", ""]
    lines += rows(("program", "what the replay says", "where"), exceptions(cells, short, "bad"))
    lines += ["", "## The failure is another there, or none", ""]
    lines += rows(("program", "recorded there; replayed there", "where"), exceptions(cells, short, "absent"))
    lines += ["", "## Config keys that the second torch does not know: skipped, and named as drift", ""]
    lines += rows(("key", "programs", "where"), keys(cells, short))
    lines += ["", "## Not one bundle: left out", ""]
    lines += rows(("program", "why", "under torch"), unrecorded(recorded, short))
    return "\n".join(lines) + "\n"


Cells = dict[tuple[int, int], dict[str, Any]]


def rows(head: tuple[str, str, str], found: dict[tuple[str, str], list[str]]) -> list[str]:
    if not found:
        return ["None."]
    table = [f"| {' | '.join(head)} |", "|---|---|---|"]
    return table + [
        f"| `{one}` | {what} | {', '.join(where)} |" for (one, what), where in sorted(found.items())
    ]


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def judge(recorded: list[Any], replayed: dict[tuple[int, int], Any], i: int, j: int) -> dict[str, Any]:
    """One cell: which recordings are reproduced, which are not, and which failures do not exist there."""
    cell: dict[str, Any] = {"good": [], "bad": [], "absent": [], "shared": 0, "unknown": {}}
    for name, outcome in replayed[i, j]["outcomes"].items():
        own = recorded[j]["programs"][name]
        exists = own.get("core") == recorded[i]["programs"][name]["core"]
        cell["shared"] += exists
        if exists and outcome["status"] == "reproduced":
            cell["good"].append(name)
        elif exists:
            cell["bad"].append((name, f"{outcome['status']}: {plain(outcome['why'])}".rstrip(": ")))
        else:
            does = "fails otherwise" if own.get("core") else plain(own.get("error") or "does not fail")
            cell["absent"].append((name, f"{does}; {outcome['status']}"))
        for key in outcome.get("unknown", ()):
            cell["unknown"].setdefault(key, []).append(name)
    return cell


def plain(text: str) -> str:
    """One short line for the page, without this machine's directories and without what differs from pair to pair."""
    text = re.sub(r"\S*/site-packages/", "", " ".join(text.split()))
    text = re.sub(r"bytecode of Python 3\.\d+, and this is 3\.\d+; .*", "bytecode of another Python", text)
    text = text if len(text) <= WIDTH else text[:WIDTH].rpartition(" ")[0] + " ..."
    return text.replace("|", "\\|")


def exceptions(cells: Cells, short: list[str], kind: str) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for (i, j), cell in sorted(cells.items()):
        for one in cell[kind]:
            found.setdefault(one, []).append(f"{short[i]} → {short[j]}")
    every = len(cells)
    return {one: ["everywhere"] if len(where) == every else where for one, where in found.items()}


def keys(cells: Cells, short: list[str]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for (i, j), cell in sorted(cells.items()):
        for key, names in cell["unknown"].items():
            found.setdefault((key, ", ".join(sorted(names))), []).append(f"{short[i]} → {short[j]}")
    return found


def unrecorded(recorded: list[Any], short: list[str]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for torch, one in zip(short, recorded, strict=True):
        for program, made in one["programs"].items():
            count = len(made.get("bundles", ()))
            if count > 1:
                found.setdefault((program, f"makes {count} bundles"), []).append(torch)
            elif count == 0:
                why = plain(made.get("error") or made.get("why") or "does not fail")
                found.setdefault((program, why), []).append(torch)
    return found


if __name__ == "__main__":
    main()
