"""Frames of a machine with a GPU are replayed on one without: over fake CUDA tensors, and on the CPU.

The bundles are made here: a program is recorded on the CPU, and then its source, its tensors and its environment are
relabelled as CUDA's. Those of a real GPU are in recordings/.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from processes import ROOT, run_python
from specimens import DIFFERENT, MISSING, PASSED

import replay
from replay import isolation
from replay.errors import UsageError
from replay.replayer import elsewhere, launch

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")

# name: (body, what becomes CUDA in its text). The failing line itself is never changed: it is in the fingerprint.
PROGRAMS = {
    "device_constant": (
        """
def weight(x):
    return torch.zeros(6, 5, device="cpu") + x.sum()
@torch.compile(backend="aot_eager")
def step(x):
    return x @ weight(x)
step(torch.randn(3, 4))
""",
        {'device="cpu"': 'device="cuda"'},
    ),
    "moved_by_methods": (
        """
PLACE = "cpu"
def weight(x):
    return x.to("cpu").cpu().float().t().to(torch.device("cpu")).t()
@torch.compile(backend="eager")
def step(x):
    return x @ weight(x)
step(torch.randn(3, 4))
""",
        {'x.to("cpu").cpu()': "x.cpu().cuda()", 'torch.device("cpu")': 'torch.device("cuda:0")'},
    ),
    "default_device": (
        """
def weight(x):
    with torch.device("cpu"):
        return torch.zeros(6, 5) * x.max()
@torch.compile(backend="eager")
def step(x):
    return x @ weight(x)
step(torch.randn(3, 4))
""",
        {'torch.device("cpu")': 'torch.device("cuda")'},
    ),
    "autocast": (
        """
def scaled(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.t()
@torch.compile(backend="eager")
def step(x):
    y = scaled(x)
    return torch.zeros(3, 3, device=x.device).scatter(0, torch.zeros(3, 3, device=x.device).long(), y)
step(torch.randn(3, 4))
""",
        {'"cpu"': '"cuda"'},
    ),
    "asks_for_cuda": (
        """
def weight(x):
    if (True) and (0) == 0:
        return torch.zeros(6, 5, device=x.device)
    return torch.zeros(4, 5, device=x.device)
@torch.compile(backend="eager")
def step(x):
    return x @ weight(x)
step(torch.randn(3, 4))
""",
        {
            "(True)": "torch.cuda.is_available()",
            "(0)": "torch.cuda.current_device()",
        },
    ),
    "branch_on_the_device": (
        """
def weight(x):
    return torch.zeros(6 if x.device.type == "cpu" else 4, 5, device=x.device)
@torch.compile(backend="eager")
def step(x):
    return x @ weight(x)
step(torch.randn(3, 4))
""",
        {'"cpu"': '"cuda"'},
    ),
    "parameters_after_a_graph_break": (
        """
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x):
        x = self.linear(x).relu()
        print("after", x.shape)
        y = torch.ones(5, 2, device="cpu")
        return x @ y
torch.compile(Block(), backend="eager")(torch.randn(3, 4))
""",
        {'device="cpu"': 'device="cuda"'},
    ),
    "backward_in_aot": (
        """
@torch.library.custom_op("elsewhere::blur", mutates_args=())
def blur(x: torch.Tensor) -> torch.Tensor:
    return x * 2
@blur.register_fake
def _(x):
    return torch.empty_like(x)
blur.register_autograd(lambda ctx, grad: grad @ torch.ones(7, 7, device=grad.device))
@torch.compile(backend="aot_eager")
def loss(x):
    scale = torch.ones(8, device="cpu")
    return blur(x * scale).sum()
loss(torch.randn(5, 8, requires_grad=True))
""",
        {'device="cpu")\n    return blur': 'device="cuda")\n    return blur'},
    ),
    "value_at_run_time": (
        """
@torch.compile(backend="aot_eager")
def pick(rows):
    table = torch.arange(3.0, device="cpu").cpu()
    return table[rows] * 2
pick(torch.tensor([7]))
""",
        {'device="cpu").cpu()': 'device="cuda").cuda()'},
    ),
}

KERNEL = """
import triton
import triton.language as tl
@triton.jit
def shifted(value, by):
    return value + by
@triton.jit
def count_kernel(source, target, size, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < size
    value = tl.load(source + at, mask=inside, other=0)
    tl.store(target, shifted(tl.sum(value, 0), 2))
"""

WITH_TRITON = {
    "kernel_then_mismatch": (
        KERNEL
        + """
def counted(x):
    out = torch.zeros(1, 6, device=x.device, dtype=x.dtype)
    count_kernel[(1,)](x, out, x.numel(), BLOCK=16)
    return out
@torch.compile(backend="aot_eager", fullgraph=True)
def step(x):
    return counted(x) @ x
step(torch.ones(4, 4))
""",
        {},
    ),
    "kernels_value_at_run_time": (
        KERNEL
        + """
@torch.compile(backend="eager")
def pick(table, x):
    row = torch.zeros(1, device=x.device, dtype=torch.int64)
    count_kernel[(1,)](x, row, x.numel(), BLOCK=16)
    return table[row]
pick(torch.arange(5.0), torch.ones(4, dtype=torch.int64))
""",
        {},
    ),
    "autotuned_kernels_value": (
        KERNEL.replace(
            "@triton.jit\ndef count_kernel",
            "@triton.autotune(configs=[triton.Config({'BLOCK': 16}), triton.Config({'BLOCK': 32})], key=['size'])\n"
            "@triton.jit\ndef count_kernel",
        )
        + """
@torch.compile(backend="eager")
def pick(table, x):
    row = torch.zeros(1, device=x.device, dtype=torch.int64)
    count_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, row, x.numel())
    return table[row]
pick(torch.arange(5.0), torch.ones(4, dtype=torch.int64))
""",
        {},
    ),
}

ALL = {**PROGRAMS, **(WITH_TRITON if importlib.util.find_spec("triton") else {})}

RECORD = """
import json, runpy, sys
from replay.torch_adapter import kernels
kernels.prepare_interpreter()
import replay, torch, torch._dynamo
sys.path.insert(0, sys.argv[1])
from relabelling import relabelled
programs = json.loads(open("programs.json").read())
bundles = {}
with kernels.known_to_dynamo(), kernels.interpreted():
    for name, pairs in programs.items():
        torch._dynamo.reset()
        error = None
        try:
            with replay.record("plain/" + name) as rec:
                runpy.run_path(name + ".py")
        except Exception as raised:
            error = raised
        assert len(rec.bundles) == 1, (name, error)
        bundles[name] = str(relabelled(rec.bundles[0], "cuda/" + name, pairs))
print(json.dumps(bundles))
"""

REPLAY = """
import json, sys
from dataclasses import asdict
import replay
bundles, options, cases = map(json.loads, sys.argv[1:])
found = {}
for name, label in cases:
    found[name + " " + label] = asdict(replay.run(bundles[name], isolate=False, **options[label]))
print(json.dumps(found))
"""

OPTIONS = {
    "": {},
    "inductor": {"backend": "inductor"},
    "cpu": {"device": "cpu"},
    "fake": {"fake": True},
    "fake eager": {"fake": True, "backend": "eager"},
    "fake cpu": {"fake": True, "device": "cpu"},
}

CASES = [
    *((name, "") for name in ALL),
    *(("value_at_run_time", label) for label in ("inductor", "fake", "fake cpu")),
    *(("device_constant", label) for label in ("cpu", "fake", "fake cpu")),
    ("branch_on_the_device", "cpu"),
    ("backward_in_aot", "fake"),
    ("backward_in_aot", "fake eager"),
]


@pytest.fixture(scope="session")
def found(tmp_path_factory):
    """Outcomes by "NAME OPTIONS"."""
    folder, empty = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("empty")
    for name, (text, _) in ALL.items():
        (folder / f"{name}.py").write_text("import torch\n" + text, encoding="utf-8")
    pairs = {name: pairs for name, (_, pairs) in ALL.items()}
    (folder / "programs.json").write_text(json.dumps(pairs), encoding="utf-8")
    printed = run_python(folder, "-c", RECORD, str(ROOT / "tests"))
    bundles = {
        name: str(shutil.move(folder / path, empty / f"{name}.rec"))
        for name, path in json.loads(printed.splitlines()[-1]).items()
    }
    shutil.rmtree(folder)
    printed = run_python(empty, "-c", REPLAY, *map(json.dumps, (bundles, OPTIONS, CASES)))
    return {"bundles": bundles, **json.loads(printed.splitlines()[-1])}


@pytest.mark.parametrize("name", ALL)
def test_the_recorded_failure_is_reproduced_without_the_device(name, found):
    outcome = found[f"{name} "]
    assert outcome["status"] == "reproduced", outcome
    assert outcome["error"]["stage"] == outcome["recorded_error"]["stage"]
    assert outcome["notes"][0].startswith("there is no CUDA device here")


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in ALL
        if "run_time" not in name and name not in ("backward_in_aot", "autotuned_kernels_value")
    ],
)
def test_a_failure_of_dynamo_reads_as_it_does_on_the_device(name, found):
    outcome = found[f"{name} "]
    assert "device='cuda:0'" in outcome["error"]["message"]
    assert "fake CUDA tensors, and was not run" in outcome["notes"][0]


@pytest.mark.parametrize("name", ["backward_in_aot", "value_at_run_time"])
def test_what_needs_gradients_or_values_is_replayed_on_the_cpu(name, found):
    outcome = found[f"{name} "]
    assert outcome["notes"][0].endswith("the frame was replayed on the CPU")
    assert outcome["error"]["message"] == outcome["recorded_error"]["message"]


def test_a_try_that_came_to_nothing_is_named_with_its_time(found):
    tried = found["backward_in_aot "]["notes"][-1]
    assert "tried too, missing after" in tried and "fake CUDA tensors" in tried


def test_a_failure_at_run_time_under_inductor_needs_the_device(found):
    outcome = found["value_at_run_time inductor"]
    assert (outcome["status"], outcome["missing"][0]["name"]) == ("missing", "a CUDA device")


def test_fake_compiles_and_does_not_run(found):
    outcome = found["backward_in_aot fake eager"]
    assert outcome["status"] == "passed"
    assert outcome["notes"][0] == "the frame was compiled over fake tensors, and was not run"


@pytest.mark.parametrize("options", ["fake", "fake cpu"])
def test_a_failure_at_run_time_is_missing_a_run_over_fakes(options, found):
    outcome = found[f"value_at_run_time {options}"]
    assert (outcome["status"], outcome["missing"][0]["name"]) == ("missing", "a run")


def test_fake_keeps_the_recorded_device_and_device_changes_it(found):
    assert "device='cuda:0'" in found["device_constant fake"]["error"]["message"]
    for options in ("fake cpu", "cpu"):
        outcome = found[f"device_constant {options}"]
        assert outcome["status"] == "reproduced"
        assert "cuda" not in outcome["error"]["message"]


def test_on_the_cpu_a_branch_on_the_device_takes_the_other_way(found):
    assert found["branch_on_the_device "]["status"] == "reproduced"
    assert found["branch_on_the_device cpu"]["status"] == "passed"


def test_gradients_of_fake_cuda_tensors_are_missing_the_device_and_do_not_end_the_process(found):
    outcome = found["backward_in_aot fake"]
    assert (outcome["status"], outcome["missing"][0]["name"]) == ("missing", "a CUDA device")


needs_triton = pytest.mark.skipif("kernel_then_mismatch" not in ALL, reason="needs triton")


@needs_triton
@pytest.mark.parametrize("name", ["kernels_value_at_run_time", "autotuned_kernels_value"])
def test_a_kernels_value_comes_from_tritons_interpreter(name, found):
    # 4 ones, plus 2 of the device function: the row that the kernel counted is not in a table of 5
    assert found[f"{name} "]["error"]["message"] == "index 6 is out of bounds for dimension 0 with size 5"
    assert found[f"{name} "]["notes"][0].endswith("the frame was replayed on the CPU")


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda:1", "--device cuda:1: not on this machine, which has cpu; or add --fake"),
        ("tpu", "--device 'tpu': must be cpu, cuda or cuda:N"),
    ],
)
def test_a_device_that_is_not_here_is_a_wrong_option_that_names_what_is(device, message, found):
    with pytest.raises(UsageError, match=re.escape(message)):
        replay.run(found["bundles"]["device_constant"], device=device, isolate=False)


def test_nothing_is_left_of_the_pretence(found):
    before = vars(torch.cuda).copy()
    codes = {
        name: getattr(torch.cuda, name).__code__ for name in ("is_available", "device_count", "_lazy_init")
    }
    replay.run(found["bundles"]["asks_for_cuda"], isolate=False)
    assert vars(torch.cuda) == before
    assert {name: getattr(torch.cuda, name).__code__ for name in codes} == codes
    assert not torch.cuda.is_available()
    with pytest.raises((AssertionError, RuntimeError), match=r"CUDA|NVIDIA"):
        torch.zeros(3, device="cuda")


def place_of(outcomes, proves=True):
    """What `best` makes of tries: (a stand-in for the fakes or None, note, outcome)."""
    tries = [elsewhere.Place(fakes=fake, note=note, proves=proves) for fake, note, _ in outcomes]
    answers = {note: outcome for _, note, outcome in outcomes}
    return elsewhere.best(tries, lambda place: answers[place.note])[0]


def test_of_tries_without_the_failure_the_one_that_ran_counts():
    passed = replace(PASSED, notes=())
    found = place_of([(SimpleNamespace(short=False), "over fakes", passed), (None, "on the cpu", passed)])
    assert found.notes[0] == "on the cpu"
    different = replace(DIFFERENT, notes=())
    found = place_of(
        [
            (SimpleNamespace(short=False), "over fakes", different),
            (None, "on the cpu", replace(MISSING, notes=())),
        ]
    )
    assert (found.status, found.notes[0]) == ("different", "over fakes")


def test_compiled_up_to_where_the_device_is_needed_is_no_pass():
    found = place_of([(SimpleNamespace(short=True), "over fakes", replace(PASSED, notes=()))])
    assert (found.status, found.missing[0].name) == ("missing", "a CUDA device")


def test_that_nothing_fails_on_the_cpu_proves_nothing_about_values_and_inductor():
    found = place_of([(None, "on the cpu", replace(PASSED, notes=()))], proves=False)
    assert (found.status, found.missing[0].name) == ("missing", "a CUDA device")


def test_what_ends_the_process_over_fakes_is_tried_on_the_cpu(found, monkeypatch):
    real, asked = isolation.call, []

    def call(target, request, **options):
        asked.append(request)
        if len(asked) == 1:
            return isolation.ChildResult("crashed", None, "SIGABRT", launch.OVER_FAKES, "", 1.0)
        return real(target, request, **options)

    monkeypatch.setattr(isolation, "call", call)
    outcome = replay.run(found["bundles"]["device_constant"])
    assert (outcome.status, len(asked)) == ("reproduced", 2)
    assert outcome.notes[0].endswith("the frame was replayed on the CPU")
    assert outcome.notes[-1] == "over fake CUDA tensors it ended: SIGABRT"


def test_dynamo_takes_kernels_for_kernels_and_inductor_hears_the_truth(inductor):
    from torch.utils import _triton

    from replay.torch_adapter import kernels

    def asked_by(module):
        names = {"__name__": module, "_triton": _triton}
        exec("answer = _triton.has_triton()", names)
        return names["answer"]

    truth = _triton.has_triton()
    with kernels.known_to_dynamo():
        assert asked_by("torch._dynamo.variables.builder") == _triton.has_triton_package()
        assert asked_by("torch._inductor.runtime.autotune_cache") == truth
    assert asked_by("torch._dynamo.variables.builder") == truth
