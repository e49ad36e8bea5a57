"""The command line of a child that sees and reaches next to nothing: bubblewrap (Linux) in front of Python.

What it sees: the system's programs and libraries, Python with its packages, `replay` and what a `Sandbox` names, all
read-only; an empty home, an empty /tmp, no network, no process but its own. What it may use: see the constants, which
`metering` and `confinement` hold it to. Nothing here starts a child, but for the one try whether bubblewrap works.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "bwrap"

HOME = "/home/sandbox"
TEMPORARY = 1 << 30
"""Bytes that /tmp, the home and /dev/shm hold at most, each: they are memory."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
_FACTS = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
)
"""Where the loader looks, which compiler is the usual one, how many processors there are. No names, no keys."""
_GPUS = ("/dev/nvidia*", "/dev/nvidia-caps", "/dev/dri", "/dev/kfd")
_OF_GPUS = ("/sys", "/opt/rocm", "/etc/OpenCL", "/etc/vulkan")
_OPTIONS = (
    *(
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ),
    *("--uid", "1000", "--gid", "1000", "--cap-drop", "ALL", "--hostname", "sandbox"),
    *("--die-with-parent", "--new-session"),
)

_PASSED_ON = re.compile(
    r"^(?:LANG|LANGUAGE|LC_\w+|TZ|CC|CXX|CUDA_VISIBLE_DEVICES|CUDA_HOME|CUDA_PATH"
    r"|(?:OMP|MKL|KMP|GOMP)_\w+|ATEN_CPU_CAPABILITY|PYTHON(?:HASHSEED|OPTIMIZE|FAULTHANDLER)"
    r"|(?!\w*_(?:DIR|PATH|OUT)$)TORCH(?:DYNAMO|INDUCTOR|_LOGS|_COMPILE|_FUNCTORCH)\w*|TRITON_(?:INTERPRET|DEBUG))$"
)
"""Variables of the parent that a sandboxed child gets: how to compile and to print; no token, no address."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a child sees beyond the system, Python and its own directory."""

    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    gpus: bool = False


def lacking() -> str:
    """Why no child can be put into a sandbox here; empty where one can. Tried once in each process."""
    program = shutil.which(PROGRAM)
    if program is None:
        return (
            "bubblewrap is not installed" if sys.platform.startswith("linux") else "bubblewrap is for Linux"
        )
    return _tried(program)


@functools.lru_cache(maxsize=4)
def _tried(program: str) -> str:
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return "this kernel does not list the children of a process"
    home = Path.home()
    held = [one for one in _python() if home.is_relative_to(one) and not _is_of_the_system(one)]
    if held:
        return f"Python's own directory {held[0]} holds the home directory"
    with tempfile.TemporaryDirectory(prefix="replay-try-") as directory:
        try:
            done = subprocess.run(
                command(Sandbox(), Path(directory), [sys.executable, "-I", "-S", "-c", ""]),
                env=variables({}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=30,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap does not work here: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return f"bubblewrap does not work here: {said[-1] if said else f'exit code {done.returncode}'}"


def command(sandbox: Sandbox, directory: Path, inner: Sequence[str]) -> list[str]:
    """`inner` in a sandbox whose working directory, the one place that outlives it, is `directory`."""
    program = shutil.which(PROGRAM) or PROGRAM
    return [program, *_OPTIONS, *_newer(program), *_mounts(sandbox, directory), "--", *inner]


def variables(environment: Mapping[str, str | None]) -> dict[str, str]:
    """The environment of a sandboxed child: what is passed on, and `environment` over it (None: not set)."""
    own = {name: value for name, value in os.environ.items() if _PASSED_ON.match(name)}
    own.update({"HOME": HOME, "USER": "sandbox", "LOGNAME": "sandbox", "PYTHONDONTWRITEBYTECODE": "1"})
    for name in ("PATH", "LD_LIBRARY_PATH"):
        seen = [one for one in os.environ.get(name, "").split(os.pathsep) if _is_seen(one)]
        if seen:
            own[name] = os.pathsep.join(seen)
    if site.ENABLE_USER_SITE:
        own["PYTHONUSERBASE"] = site.getuserbase()
    everything = {**own, **environment}
    return {name: value for name, value in everything.items() if value is not None}


def _newer(program: str) -> list[str]:
    """Options that older versions of bubblewrap do not have."""
    return ["--disable-userns"] if "--disable-userns" in _help(program) else []


@functools.lru_cache(maxsize=4)
def _help(program: str) -> str:
    done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout + done.stderr


def _mounts(sandbox: Sandbox, directory: Path) -> Iterator[str]:
    """In order: a later one lies over an earlier one."""
    for path in _SYSTEM:
        yield from _shown(path)
    yield from ("--proc", "/proc", "--dev", "/dev")
    sized = ["--size", str(TEMPORARY)] if "--size" in _help(shutil.which(PROGRAM) or PROGRAM) else []
    for path in ("/dev/shm", "/tmp", HOME):
        yield from (*sized, "--perms", "0700", "--tmpfs", path)
    for path in (*_FACTS, *map(str, _python()), *map(os.path.abspath, sandbox.readable)):
        yield from ("--ro-bind-try", path, path)
    if sandbox.gpus:
        yield from _devices()
    for path in (*map(os.path.abspath, sandbox.writable), os.path.abspath(directory)):
        yield from ("--bind", path, path)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", os.path.abspath(directory))


def _shown(path: str) -> Iterator[str]:
    """A directory of the system, or the link that stands for it."""
    if os.path.islink(path):
        yield from ("--symlink", os.readlink(path), path)
    elif os.path.isdir(path):
        yield from ("--ro-bind", path, path)


def _devices() -> Iterator[str]:
    for path in sorted(one for pattern in _GPUS for one in glob.glob(pattern)):
        yield from ("--dev-bind", path, path)
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    for path in (*_OF_GPUS, *homes):
        yield from ("--ro-bind-try", path, path)


@functools.lru_cache(maxsize=1)
def _python() -> tuple[Path, ...]:
    """Python, its packages and `replay` itself; of a checkout only the package, not what lies beside it."""
    found = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    found += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(Path(__file__).parents[1])]
    if site.ENABLE_USER_SITE:
        found.append(site.getusersitepackages())
    return tuple(dict.fromkeys(Path(one) for each in found for one in (each, os.path.realpath(each))))


def _is_seen(path: str) -> bool:
    return bool(path) and (
        _is_of_the_system(Path(path)) or any(Path(path).is_relative_to(one) for one in _python())
    )


def _is_of_the_system(path: Path) -> bool:
    return any(path.is_relative_to(one) for one in _SYSTEM)
