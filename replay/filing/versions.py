"""The section "Versions": the layout of torch.utils.collect_env, filled from the recording and from nothing else.

What the recording does not know is said so. The names of the fields are those that collect_env prints in torch 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.recording import Environment, Manifest

UNKNOWN = "not recorded"
_GLIBC = re.compile(r"glibc(\d[\d.]*)")


def versions(manifest: Manifest) -> str:
    """The lines of collect_env."""
    return "\n".join(_lines(manifest.environment))


def _lines(made: Environment) -> Iterator[str]:
    libc = _GLIBC.search(made.platform)
    cuda = made.cuda or ("None" if made.torch.endswith("+cpu") else UNKNOWN)
    yield f"PyTorch version: {made.torch}"
    yield f"Is debug build: {UNKNOWN}"
    yield f"CUDA used to build PyTorch: {cuda}"
    yield f"ROCM used to build PyTorch: {UNKNOWN}"
    yield ""
    yield f"OS: {UNKNOWN}"
    yield from (f"{name} version: {UNKNOWN}" for name in ("GCC", "Clang", "CMake"))
    yield f"Libc version: glibc-{libc[1]}" if libc else f"Libc version: {UNKNOWN}"
    yield ""
    yield f"Python version: {made.python} ({made.implementation})"
    yield f"Python platform: {made.platform}"
    yield f"Is CUDA available: {bool(made.gpus)}"
    yield f"CUDA runtime version: {UNKNOWN}"
    yield from _gpus(made)
    yield f"Nvidia driver version: {UNKNOWN}"
    yield f"cuDNN version: {UNKNOWN}"
    yield ""
    yield "CPU:"
    yield f"Architecture: {made.machine or UNKNOWN}"
    yield f"Model name: {made.cpu or UNKNOWN}"
    yield f"CPU capability of torch: {made.cpu_capability or UNKNOWN}"
    yield ""
    yield "Versions of relevant libraries (those that the recording refers to):"
    found = {**made.packages, "torch": made.torch, **({"triton": made.triton} if made.triton else {})}
    yield from (f"[pip3] {name}=={version}" for name, version in sorted(found.items()))
    if made.variables:
        yield ""
        yield "Environment variables:"
        yield from (f"{name}={value}" for name, value in sorted(made.variables.items()))


def _gpus(made: Environment) -> Iterator[str]:
    if len(made.gpus) > 1:
        yield "GPU models and configuration:"
        yield from (f"GPU {at}: {name}" for at, name in enumerate(made.gpus))
    else:
        yield f"GPU models and configuration: {made.gpus[0] if made.gpus else 'No CUDA'}"
