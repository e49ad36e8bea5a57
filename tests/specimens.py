"""An invented bundle and invented outcomes, with something of everything, for tests of `report` and `cli`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from replay.recording import (
    CallInfo,
    CompileInfo,
    Drift,
    Entry,
    Environment,
    ErrorInfo,
    FrameInfo,
    FrameOutcome,
    InputInfo,
    LeftOut,
    Manifest,
    Missing,
    Outcome,
    StorageSpec,
    Substitution,
    TensorSpec,
    UserFrame,
)

MODEL = "/home/ann/nets/model.py"
OPS = "/home/ann/nets/ops.py"

MODEL_TEXT = '''import torch

from nets.ops import squash


class Block(torch.nn.Module):
    """A block that prints."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x, scale=2.0):
        y = self.lin(x)
        if scale > 1:
            y = y * scale
        return squash(y)
'''

OPS_TEXT = '''"""Elementwise things."""


def squash(y):
    print("squashing", y.shape)
\treturn y / (1 + y.abs())
'''

MESSAGE = """Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print` with argument types ['<unknown type>']
  Hint: If you are attempting to call a logging function (e.g. `print`), you can try adding it to `torch._dynamo.config.reorderable_logging_functions`.

  Developer debug context: builtin print [<class 'torch._dynamo.variables.constant.ConstantVariable'>] False


from user code:
   File "/home/ann/nets/model.py", line 17, in forward
    return squash(y)

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""

ERROR = ErrorInfo(
    type="torch._dynamo.exc.Unsupported",
    message=MESSAGE,
    stage="dynamo",
    fingerprint="5ad0c1e2",
    user_frames=(
        UserFrame(MODEL, 17, "forward", "return squash(y)"),
        UserFrame(OPS, 5, "squash", 'print("squashing", y.shape)'),
    ),
    gb_type="Failed to trace builtin operator",
    traceback='Traceback (most recent call last):\n  File "train.py", line 9\nUnsupported: ...\n',
)

OTHER_ERROR = ErrorInfo(
    type="torch._dynamo.exc.BackendCompilerFailed",
    message="backend='inductor' raised:\nValueError: no relu here\n\nSet TORCHDYNAMO_VERBOSE=1 for more",
    stage="backend",
    fingerprint="77aa01b4",
    inner_type="builtins.ValueError",
)

ENVIRONMENT = Environment(
    python="3.11.7",
    implementation="CPython",
    torch="2.13.0+cpu",
    triton=None,
    platform="Linux-6.1.0-x86_64-with-glibc2.36",
    machine="x86_64",
    cpu="Some CPU @ 2.4 GHz",
    cpu_capability="AVX2",
    gpus=(),
    cuda=None,
    packages={"numpy": "2.4.6", "einops": "0.8.2"},
    variables={"TORCH_LOGS": "+dynamo"},
)

MANIFEST = Manifest(
    created="2025-11-20T16:21:00Z",
    writer="torch-replay 0.1.0",
    event="failure",
    frame=FrameInfo(
        "Block.forward", "forward", "nets.model", MODEL, 13, 17, "source/nets/model.py", "source"
    ),
    error=ERROR,
    compile=CompileInfo("inductor", "registered", True, None, {"max_autotune": True}, "1/0"),
    environment=ENVIRONMENT,
    inputs=(
        InputInfo("self", "argument", "nets.model.Block", "Block, 2 parameters", ("t0", "t1")),
        InputInfo("x", "argument", "torch.Tensor", "float32[2, 3] cpu", ("t2",)),
        InputInfo("scale", "argument", "float", "2.0"),
        InputInfo("squash", "global", "function", "nets.ops.squash"),
    ),
    calls=(CallInfo("0/0", ()),),
    tensors={
        "t0": TensorSpec((3, 3), (3, 1), 0, "float32", "cpu", "s0", "parameter", True),
        "t1": TensorSpec((3,), (1,), 0, "float32", "cpu", "s1", "parameter", True),
        "t2": TensorSpec((2, 3), (1, 2), 4, "float32", "cpu", "s2", requires_grad=True, is_leaf=False),
    },
    storages={
        "s0": StorageSpec(36, 0, 36, "cpu", "blobs/s0"),
        "s1": StorageSpec(12, 0, 12, "cpu", None),
        "s2": StorageSpec(40, 16, 24, "cpu", "blobs/s2"),
    },
    config={"dynamo.suppress_errors": True, "inductor.cpp.cxx": (None, "g++")},
    state={
        "grad_enabled": False,
        "autocast": {"cpu": {"enabled": True, "dtype": "bfloat16"}},
        "default_dtype": "float32",
        "threads": 2,
        "cudnn": {"enabled": True, "benchmark": True},
        "generators": {"torch": b"\x00" * 5056},
    },
    sources={MODEL: "source/nets/model.py", OPS: "source/nets/ops.py"},
    left_out=(
        LeftOut("self.decoder", "nets.model.Decoder", 3_000_000),
        LeftOut("self.log", "logging.Logger"),
    ),
    substitution=Substitution(False, True, "passed", kept=("s0",), seconds=7.25),
    missing=(Missing("globals.log", "_io.TextIOWrapper", "an open file cannot travel"),),
    process={"thread": "worker-1"},
    entries={
        "README.txt": Entry(400, "sha256:0"),
        "values.pkl": Entry(2048, "sha256:1"),
        "source/nets/model.py": Entry(len(MODEL_TEXT), "sha256:2"),
        "source/nets/ops.py": Entry(len(OPS_TEXT), "sha256:3"),
        "blobs/s0": Entry(36, "xxh3:4"),
        "blobs/s2": Entry(24, "xxh3:5"),
        "blobs/s3": Entry(3 << 20, "xxh3:6"),
    },
)


@dataclass
class StandIn:
    """What `report` and `cli` use of a `replay.bundle.Bundle`."""

    manifest: Manifest = MANIFEST
    path: str = "failures/forward_Unsupported_5.rec"
    size: int = 3_150_000
    seal: str = ""
    sealed: bytes = b""
    texts: Mapping[str, str] = field(default_factory=lambda: {MODEL: MODEL_TEXT, OPS: OPS_TEXT})

    def source_for(self, filename: str) -> str | None:
        return self.texts.get(filename)

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


REPRODUCED = Outcome(
    bundle="failures/forward_Unsupported_5.rec",
    status="reproduced",
    backend="inductor",
    function="Block.forward",
    error=ERROR,
    recorded_error=ERROR,
    frames=(FrameOutcome("Block.forward", MODEL, 13, 1, 0, 0.25), FrameOutcome("squash", OPS, 4, 0, 1, 0.0)),
    seconds={"load": 0.012, "compile": 1.25, "run": 0.0, "total": 12.6},
    drift=(Drift("torch", "2.13.0+cpu", "2.14.0"), Drift("threads", "2", "16")),
    notes=("the recording's generator states were restored",),
)

PASSED = replace(REPRODUCED, status="passed", error=None, backend="eager", drift=(), notes=())
DIFFERENT = replace(REPRODUCED, status="different", error=OTHER_ERROR)
MISSING = replace(
    REPRODUCED,
    status="missing",
    error=None,
    missing=(Missing("packages.einops", "package", "einops 0.8.2 is not installed here"),),
    notes=(),
)
