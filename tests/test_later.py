"""Failures after the compilation: a backward graph that fails to compile late, and errors of running code.

One process records all programs; another one, without them, replays. The programs are whole scripts.
"""

from __future__ import annotations

import json
import shutil

import pytest
from processes import run_python

HEAD = "import torch, replay, sys\nfrom torch._dynamo.backends.common import aot_autograd\n"

OPERATOR = """
@torch.library.custom_op("latertests::{name}", mutates_args=())
def {name}(x: torch.Tensor) -> torch.Tensor:
    {body}
@{name}.register_fake
def _(x):
    return torch.empty_like(x)
"""

PROGRAMS = {
    "backward_compiler_fails": """
def refuse(graph, example_inputs):
    raise NotImplementedError("no backward on this device")
backend = aot_autograd(fw_compiler=lambda graph, example_inputs: graph, bw_compiler=refuse)
@torch.compile(backend=backend)
def loss(x):
    return x.sin().sum()
loss(torch.ones(3, requires_grad=True)).backward()
""",
    "index_out_of_range": """
@torch.compile(backend="aot_eager")
def pick(table, rows):
    return table[rows] * 2
pick(torch.arange(3.0), torch.tensor([100]))
""",
    "index_out_of_range_in_a_later_call": """
@torch.compile(backend="eager")
def pick(table, rows):
    rows = rows + 1
    return table[rows] * 2
pick(torch.arange(3.0), torch.tensor([0]))
pick(torch.arange(3.0), torch.tensor([7]))
""",
    "operator_raises_forward": OPERATOR.format(name="forward_fails", body='raise ValueError("sensor is off")')
    + """
class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
    def forward(self, x):
        return forward_fails(x * self.weight)
with torch.no_grad():
    torch.compile(Reader(), backend="aot_eager")(torch.ones(4))
""",
    "operator_raises_backward": OPERATOR.format(name="gradient", body='raise ValueError("no gradient today")')
    + OPERATOR.format(name="double", body="return x * 2")
    + """
double.register_autograd(lambda ctx, grad: gradient(grad))
@torch.compile(backend="aot_eager")
def loss(x, factor):
    return double(x).sum() * factor
loss(torch.ones(5, requires_grad=True), 3).backward()
""",
    "after_a_graph_break": """
@torch.compile(backend="aot_eager")
def pick(table, rows):
    print("rows", rows.shape)
    return table[rows] + 1
pick(torch.arange(3.0), torch.tensor([9]))
""",
}


RECORD = """
import json, runpy, sys, replay, torch
found = {}
for name in sys.argv[2:]:
    torch._dynamo.reset()
    error = None
    try:
        with replay.record(sys.argv[1] + "/" + name) as rec:
            runpy.run_path(name + ".py")
    except Exception as e:
        error = e
    found[name] = {
        "bundles": [str(path) for path in rec.bundles],
        "type": type(error).__qualname__,
        "notes": getattr(error, "__notes__", []),
    }
print(json.dumps(found))
"""

REPLAY = """
import json, sys
from dataclasses import asdict
import replay
def go(path, **options):
    return asdict(replay.run(path, isolate=False, **options))
print(json.dumps({path: {"recorded": go(path), "forward": go(path, backward=False)} for path in sys.argv[1:]}))
"""


@pytest.fixture(scope="session")
def found(tmp_path_factory):
    """What was recorded of each program, and its outcomes."""
    folder, bundles = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("later")
    for name, text in PROGRAMS.items():
        (folder / f"{name}.py").write_text(HEAD + text, encoding="utf-8")
    recorded = json.loads(run_python(folder, "-c", RECORD, str(bundles), *PROGRAMS).splitlines()[-1])
    shutil.rmtree(folder)
    paths = [path for one in recorded.values() for path in one["bundles"]]
    replayed = json.loads(run_python(bundles, "-c", REPLAY, *paths).splitlines()[-1])
    for one in recorded.values():
        one["outcomes"] = [replayed[path] for path in one["bundles"]]
    return recorded


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_makes_one_bundle_and_a_note(name, found):
    assert len(found[name]["bundles"]) == 1
    assert found[name]["bundles"][0] in found[name]["notes"][0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_reproduced_where_the_program_is_gone(name, found):
    outcome = found[name]["outcomes"][0]["recorded"]
    assert outcome["status"] == "reproduced", outcome
    assert outcome["error"]["message"] == outcome["recorded_error"]["message"]


@pytest.mark.parametrize(
    ("name", "stage", "function"),
    [
        ("backward_compiler_fails", "backward", "loss"),
        ("index_out_of_range", "runtime", "pick"),
        ("operator_raises_forward", "runtime", "Reader.forward"),
        ("operator_raises_backward", "runtime", "loss"),
    ],
)
def test_it_is_attributed_to_its_stage_and_forward_frame(name, stage, function, found):
    outcome = found[name]["outcomes"][0]["recorded"]
    assert outcome["error"]["stage"] == stage
    assert outcome["function"].endswith(function.rpartition(".")[2])


@pytest.mark.parametrize("name", ["backward_compiler_fails", "operator_raises_backward"])
def test_a_failure_of_the_backward_needs_the_backward(name, found):
    assert found[name]["outcomes"][0]["forward"]["status"] == "passed"
