"""The cases of torch's own (deleted) tests for record and replay: each replays with the same text.

One process records them all; the files are deleted; another process, in an empty directory, replays them.
"""

from __future__ import annotations

import json
import shutil

import pytest
from processes import run_python

from replay.fingerprint import same_text

PACKAGE = {
    "mylib/__init__.py": "",
    "mylib/ops.py": """
import torch

SCALE = 2

def scaled(x):
    return x * SCALE

def broken(x):
    return scaled(x) @ x

class Filter:
    gain = 3

    def __init__(self, taps):
        self.taps = taps

    def apply(self, x):
        return (x * self.gain) @ self.taps
""",
    "mylib/late.py": """
from mylib.ops import scaled

def finish(x):
    return scaled(x) @ x
""",
}

PROGRAM = """
import sys
import torch
import replay
from mylib import ops
from mylib.ops import Filter

def level_two(x):
    return x @ x

def level_one(x):
    return level_two(x + 1)

def fine(x):
    return x.sin()

def failing_inline_two_levels_deep(x):
    return level_one(x)

def successful_inline_then_failing(x):
    y = fine(x)
    return level_two(y)

def make_nonlocal():
    offset = 3

    def helper(x):
        return x + offset

    def nonlocal_function(x):
        return helper(x) @ x

    return nonlocal_function

def function_of_an_absent_module(x):
    return ops.broken(x)

def class_of_an_absent_module(x):
    return Filter(torch.ones(7, 7)).apply(x)

def module_imported_inside(x):
    import mylib.late

    return mylib.late.finish(x)

def tensor_arguments(x, y=torch.ones(5), *rest, scale=torch.tensor(2)):
    return x @ y * scale

def torch_nn_access(x):
    return torch.nn.functional.linear(torch.nn.functional.relu(x), torch.ones(4, 9))

cases = [
    failing_inline_two_levels_deep,
    successful_inline_then_failing,
    make_nonlocal(),
    function_of_an_absent_module,
    class_of_an_absent_module,
    module_imported_inside,
    tensor_arguments,
    torch_nn_access,
]
for case in cases:
    torch._dynamo.reset()
    with replay.record(sys.argv[1]) as rec:
        try:
            torch.compile(case, backend="eager")(torch.ones(2, 3))
        except Exception as error:
            print(case.__name__, rec.bundles[0], sep="\\t")
"""

NAMES = (
    "failing_inline_two_levels_deep",
    "successful_inline_then_failing",
    "nonlocal_function",
    "function_of_an_absent_module",
    "class_of_an_absent_module",
    "module_imported_inside",
    "tensor_arguments",
    "torch_nn_access",
)

REPLAY = """
import json, sys
from dataclasses import asdict
import replay
print(json.dumps({path: asdict(replay.run(path, isolate=False)) for path in sys.argv[1:]}))
"""


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory):
    """Outcome of each case, by name."""
    program, bundles = tmp_path_factory.mktemp("program"), tmp_path_factory.mktemp("bundles")
    empty = tmp_path_factory.mktemp("elsewhere")
    for name, text in {**PACKAGE, "program.py": PROGRAM}.items():
        (program / name).parent.mkdir(exist_ok=True)
        (program / name).write_text(text, encoding="utf-8")
    recorded = run_python(program, "program.py", str(bundles))
    paths = dict(line.split("\t") for line in recorded.splitlines())
    shutil.rmtree(program)
    replayed = json.loads(run_python(empty, "-c", REPLAY, *paths.values()).splitlines()[-1])
    return {name: replayed[path] for name, path in paths.items()}


@pytest.mark.parametrize("name", NAMES)
def test_it_replays_with_the_same_text_where_the_package_is_absent(name, outcomes):
    outcome = outcomes[name]
    assert outcome["status"] == "reproduced", outcome
    assert outcome["error"]["message"] == outcome["recorded_error"]["message"]
    assert same_text(outcome["recorded_error"]["message"], outcome["error"]["message"])
    assert outcome["missing"] == []
