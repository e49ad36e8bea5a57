"""The house's floors: an import goes down, or stays in one package; torch's private names stay fenced in."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "replay"

FLOORS = {
    "_version": 0,
    "errors": 0,
    "files": 0,
    "findings": 0,
    "plain": 0,
    "recording": 0,
    "bundle": 1,
    "giveaways": 1,
    "opcodes": 1,
    "fingerprint": 1,
    "script": 1,
    "selection": 1,
    "source": 1,
    "isolation": 2,
    "torch_adapter": 2,
    "shipping": 3,
    "trust": 3,
    "recorder": 4,
    "replayer": 4,
    "explanation": 5,
    "recompilation": 5,
    "exporting": 5,
    "diagnosis": 5,
    "profiling": 5,
    "ablation": 5,
    "contents": 5,
    "stripping": 5,
    "report": 6,
    "filing": 6,
    "cli": 7,
    "__main__": 7,
}
"""Room (a module or a package directly under `replay`) -> floor. A new room gets its floor here."""

FENCE = "torch_adapter"

MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(tree: ast.AST, path: Path) -> Iterator[tuple[str, int]]:
    """Rooms of `replay` that a module imports anywhere, in functions too, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import; write it out"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "replay" and len(parts) > 1:
                yield parts[1], node.lineno


def private_torch_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Torch's private names that a module imports, or reaches by attributes, with the line."""
    roots = {"torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    roots.add(alias.asname or "torch")
                    if any(is_private(part) for part in alias.name.split(".")):
                        yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            for alias in node.names:
                roots.add(alias.asname or alias.name)
                full = f"{node.module}.{alias.name}"
                if any(is_private(part) for part in full.split(".")):
                    yield full, node.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and root_name(node) in roots:
            yield ast.unparse(node), node.lineno


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def root_name(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_import_goes_down_or_stays_in_its_room(path):
    room = room_of(path)
    if room == "__init__":
        return  # names every floor, but imports lazily; see the test below
    assert room in FLOORS, f"{path}: give the room {room!r} a floor in FLOORS"
    for other, line in imported_rooms(ast.parse(path.read_text(encoding="utf-8")), path):
        if other in (room, "__init__") or other == "__version__":
            continue
        assert other in FLOORS, f"{path}:{line}: import from {other!r}, which has no floor in FLOORS"
        if FLOORS[other] == FLOORS[room] and is_below(other, room):
            continue
        assert FLOORS[other] < FLOORS[room], (
            f"{path}:{line}: {room} (floor {FLOORS[room]}) imports {other} (floor {FLOORS[other]})"
        )


# One floor, two rooms: the order inside it, lower first.
STAIRS = {
    0: ["errors", "files", "recording", "findings"],
    1: ["fingerprint", "source", "selection", "bundle"],
    4: ["replayer", "recorder"],
    5: ["contents", "stripping"],
    6: ["report", "filing"],
    7: ["cli", "__main__"],
}


def is_below(other: str, room: str) -> bool:
    steps = STAIRS.get(FLOORS[room], [])
    return other in steps and room in steps and steps.index(other) < steps.index(room)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_adapter_names_torchs_private_parts(path):
    if room_of(path) == FENCE:
        return
    found = [
        f"{name} (line {line})" for name, line in private_torch_names(ast.parse(path.read_text("utf-8")))
    ]
    assert not found, f"{path} reaches into torch; go through torch_adapter: {found}"


def test_the_public_package_imports_nothing_but_its_version_at_run_time():
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    guarded = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    hidden = {id(inner) for block in guarded for inner in ast.walk(block)}
    rooms = {
        name
        for node in ast.walk(tree)
        if id(node) not in hidden
        for name, _ in imported_rooms(ast.Module([node], []), PACKAGE)
        if isinstance(node, ast.stmt)
    }
    assert rooms <= {"_version"}


def test_the_walker_sees_what_it_must_see():
    imports = "import torch as t\nfrom torch import nn\nfrom torch._dynamo import config\n"
    text = imports + "t._C\nnn.Module._call\nt.x\nt.__version__"
    names = [name for name, _ in private_torch_names(ast.parse(text))]
    assert names == ["torch._dynamo.config", "t._C", "nn.Module._call"]


def test_looking_at_bundles_imports_no_torch():
    code = """
import sys
import replay, replay.bundle, replay.cli, replay.report
assert not {"click", "rich", "msgpack.torch"} & set(sys.modules), "import replay draws on no terminal"
import replay.cli.application, replay.cli.inspect, replay.cli.replay, replay.cli.explain
import replay.explanation, replay.report.explanation
import replay.recompilation, replay.report.recompiles, replay.cli.recompiles
import replay.cli.application, replay.cli.inspect, replay.cli.replay
import replay.cli.triage, replay.diagnosis, replay.report.triage, replay.findings.triage
import replay.cli.record, replay.report.inspection, replay.report.verdict, replay.report.plain, replay.script
import replay.trust, replay.cli.trust, replay.cli.trusting, replay.report.trust
import replay.cli.grid, replay.recompilation.grid, replay.report.grid, replay.report.chart
import replay.report.ablation, replay.report.logs, replay.ablation, replay.cli.ablation
assert "torch" not in sys.modules, "something imported torch"
assert "pygments" not in sys.modules, "something imported pygments"
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


def test_every_public_name_is_lazily_there():
    import replay

    assert set(replay.__all__) <= set(dir(replay))
    assert replay.ReplayError.__module__ == "replay.errors"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        replay.nothing  # noqa: B018
