"""Versions, hardware and the environment variables that matter; nothing private leaves by accident.

The whole environment is never taken: `VARIABLES` is an allow-list of names, without those that hold
directories, addresses or credentials.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping

from replay.recording import Drift, Environment
from replay.torch_adapter import features

VARIABLES = re.compile(
    r"""^(?:
    TORCHDYNAMO_(?!DEBUG_DIR|REPRO_DIR).*|TORCHINDUCTOR_(?!CACHE_DIR|REMOTE|.*_DIR$|.*_PATH$).*
    |TORCH_COMPILE_(?!DEBUG).*|AOT_[A-Z_]+|PARTITIONER_[A-Z_]+|TORCH_FUNCTORCH_.*
    |PYTORCH_(?:CUDA_)?ALLOC_CONF|PYTORCH_NO_CUDA_MEMORY_CACHING|PYTORCH_JIT|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE
    |TRITON_(?:INTERPRET|DEBUG|DISABLE_LINE_INFO|ALWAYS_COMPILE|PRINT_AUTOTUNING|DEFAULT_FP_FUSION|F32_DEFAULT)
    |CUDA_LAUNCH_BLOCKING|CUBLAS_WORKSPACE_CONFIG|NVIDIA_TF32_OVERRIDE
    |OMP_(?:NUM_THREADS|SCHEDULE|PROC_BIND)|MKL_(?:NUM_THREADS|DYNAMIC)|KMP_(?:BLOCKTIME|AFFINITY)
    |(?:LOCAL_|GROUP_|ROLE_)?(?:RANK|WORLD_SIZE)
    |ATEN_CPU_CAPABILITY|PYTHONHASHSEED|PYTHONOPTIMIZE
    )$""",
    re.VERBOSE,
)
"""Environment variables that change what torch.compile does."""

_NOT_SET = re.compile(
    r"^(?:TORCHDYNAMO_(?:REPRO_AFTER|REPRO_LEVEL|EXPORT_.*|DEBUG_FUNCTION)|TORCHINDUCTOR_COMPILE_THREADS)$"
)
"""Recorded and shown, but not set for a replay: they start other tools, or belong to the machine."""


CHECK = "TORCH_REPLAY_CHECK"
"""For how many seconds a recorder may check that a failure survives without its values; 0: it does not check."""
CHECK_SECONDS = 300.0

_ALONE = re.compile(
    r"^(?:(?:LOCAL_|GROUP_|ROLE_|NODE_)?(?:RANK|WORLD_SIZE)|ROLE_NAME|MASTER_(?:ADDR|PORT)|TORCHELASTIC_.*"
    r"|OMPI_COMM_WORLD_.*|PMI_.*|PMIX_.*|SLURM_(?:PROCID|LOCALID|NTASKS)"
    r"|TORCH_TRACE|TORCH_LOGS|TORCH_LOGS_OUT|TORCH_COMPILE_DEBUG|TORCHDYNAMO_REPRO_AFTER)$"
)
"""What would make a child another rank of this program, or write into the files that the program logs to."""


def check_seconds() -> float | None:
    """What CHECK says; None where it is no number."""
    try:
        return max(0.0, float(os.environ.get(CHECK) or CHECK_SECONDS))
    except ValueError:
        return None


def alone() -> dict[str, str | None]:
    """Variables for a child process that is no part of this program: no rank, no logs, no child of its own."""
    return {**{name: None for name in os.environ if _ALONE.match(name)}, CHECK: "0"}


def capture(packages: Mapping[str, str]) -> Environment:
    """The environment of the process. `packages`: distributions that the recorded values refer to."""
    torch = features.module("torch")
    return Environment(
        python=platform.python_version(),
        implementation=platform.python_implementation(),
        torch=str(torch.__version__),
        triton=_triton_version(),
        platform=platform.platform(),
        machine=platform.machine(),
        cpu=_cpu(),
        cpu_capability=str(torch.backends.cpu.get_cpu_capability()),
        gpus=_gpus(),
        cuda=torch.version.cuda,
        packages=dict(packages),
        variables={name: value for name, value in sorted(os.environ.items()) if VARIABLES.match(name)},
    )


def variables_to_set(recorded: Mapping[str, str]) -> dict[str, str]:
    """The recorded variables that a replaying process should start with."""
    return {
        name: value for name, value in recorded.items() if VARIABLES.match(name) and not _NOT_SET.match(name)
    }


def drift(recorded: Environment, here: Environment) -> list[Drift]:
    """What differs between two environments and may matter."""
    found = []
    for name in ("python", "implementation", "torch", "triton", "machine", "cpu", "cpu_capability", "cuda"):
        one, other = getattr(recorded, name), getattr(here, name)
        if one != other:
            found.append(Drift(name, str(one), str(other)))
    if recorded.gpus != here.gpus:
        found.append(Drift("gpus", ", ".join(recorded.gpus) or "none", ", ".join(here.gpus) or "none"))
    for name, version in recorded.packages.items():
        installed = here.packages.get(name, "not installed")
        if version != installed:
            found.append(Drift(f"package {name}", version, installed))
    return found


def _triton_version() -> str | None:
    from importlib import metadata

    for name in ("triton", "pytorch-triton", "triton-windows"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def _gpus() -> tuple[str, ...]:
    """Names of the GPUs; asks the driver only where the program uses CUDA already."""
    torch = features.module("torch")
    if not torch.cuda.is_available():
        return ()
    return tuple(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
