"""Which devices are here, and where a tensor of the recording goes.

Nothing here touches a tensor. What a program without a GPU is told about CUDA lives in `pretence`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from replay.errors import UsageError
from replay.torch_adapter import features
from replay.torch_adapter.patching import patched

_DEVICE_FILES = ("nvidia", "dxg", "kfd")
"""In /dev: the drivers of NVIDIA, of Windows's subsystem for Linux, of AMD."""
_CHOICE = re.compile(r"^(cpu|cuda(?::\d+)?)$")


def cuda_count() -> int:
    """How many CUDA devices torch can use here."""
    torch = features.module("torch")
    return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0


def are_absent() -> bool:
    """Whether there surely is no CUDA device. Unlike `cuda_count` it starts no driver: a process that did cannot fork.

    Linux lists the devices that a driver serves: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/
    """
    return sys.platform.startswith("linux") and not any(
        name.startswith(_DEVICE_FILES) for name in os.listdir("/dev")
    )


@contextmanager
def no_driver_asked() -> Iterator[None]:
    """Inside, torch counts no CUDA devices where there surely are none, without trying to start a driver.

    torch takes a process that has tried for one that has started CUDA; torch 2.9 tries when Inductor is imported.
    """
    torch = features.module("torch")
    if torch.version.cuda is None or not are_absent():
        yield
        return
    with patched(torch._C, "_cuda_getDeviceCount", lambda: 0):
        yield


def started_before_fork() -> bool:
    """In a forked process: whether its parent had started CUDA, which no fork survives."""
    torch = features.module("torch")
    check = getattr(torch._C, "_cuda_isInBadFork", None)  # only in builds with CUDA
    return check is not None and bool(check())


def nearest(name: str) -> str:
    """The device of that name, else the first of its kind, else the CPU."""
    device = features.module("torch").device(name)
    if device.type in ("cpu", "meta"):
        return name
    count = cuda_count() if device.type == "cuda" else 0
    if count == 0:
        return "cpu"
    return name if (device.index or 0) < count else "cuda:0"


def check_choice(name: str, *, fake: bool) -> None:
    """UsageError unless `--device` names a device that is here; a fake one need not be."""
    if not _CHOICE.match(name):
        raise UsageError(f"--device {name!r}: must be cpu, cuda or cuda:N")
    if fake or name == "cpu" or int(name.partition(":")[2] or 0) < cuda_count():
        return
    raise UsageError(f"--device {name}: not on this machine, which has {_here()}; or add --fake")


def all_on(name: str) -> Callable[[str], str]:
    """The map that puts everything on one device; what has no memory ("meta") stays as it is."""
    name = "cuda:0" if name == "cuda" else name
    return lambda recorded: recorded if recorded == "meta" else name


@contextmanager
def current(name: str | None) -> Iterator[None]:
    """A plain "cuda" means this device meanwhile."""
    if name is None or not name.startswith("cuda:") or cuda_count() == 0:
        yield
        return
    with features.module("torch").cuda.device(name):
        yield


def _here() -> str:
    return ", ".join(["cpu", *(f"cuda:{index}" for index in range(cuda_count()))])
