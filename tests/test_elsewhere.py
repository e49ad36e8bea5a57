"""Frames of a machine with a GPU are replayed on one without: over fake CUDA tensors, and on the CPU.

The bundles are made here: a program is recorded on the CPU, and then its source, its tensors and its environment are
relabelled as CUDA's. Those of a real GPU are in recordings/.
"""

from __future__ import annotations

import importlib.util
import json
import shutil

import pytest
import torch
from processes import ROOT, run_python

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")

MISMATCH = "x @ weight(x)"

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
found = {}
for name, path in json.loads(sys.argv[1]).items():
    for label, options in json.loads(sys.argv[2]).items():
        found[name + " " + label] = asdict(replay.run(path, isolate=False, **options))
print(json.dumps(found))
"""

OPTIONS = {
    "": {},
    "inductor": {"backend": "inductor"},
    "cpu": {"device": "cpu"},
    "fake": {"fake": True},
    "fake cpu": {"fake": True, "device": "cpu"},
}


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
    printed = run_python(empty, "-c", REPLAY, json.dumps(bundles), json.dumps(OPTIONS))
    return {"bundles": bundles, **json.loads(printed.splitlines()[-1])}
