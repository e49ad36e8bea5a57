"""Whose a name is, and what its caller can do with it. Only names are looked at; nothing is imported.

The table is a reader's aid, not a fence: a name without an entry is not thereby harmless. Where commands are to be kept
from running, a sandbox does that.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping

from replay.findings.imports import Group
from replay.opcodes import Name

COMMANDS, CODE, NETWORK = "run commands", "run any code", "reach the network"
FILES, INTERPRETER, REFLECTION = "read or change files", "change the interpreter", "reach any attribute"

_MODULES: Mapping[str, str] = {
    **dict.fromkeys(
        ("subprocess", "_posixsubprocess", "pty", "commands", "popen2", "multiprocessing", "_winapi"),
        COMMANDS,
    ),
    **dict.fromkeys(("os", "posix", "nt"), f"{COMMANDS}, {FILES}"),
    **dict.fromkeys(
        ("asyncio.subprocess", "asyncio.unix_events", "distutils", "platform", "sched"), COMMANDS
    ),
    **dict.fromkeys(("code", "codeop", "runpy", "importlib", "_frozen_importlib", "imp", "zipimport"), CODE),
    **dict.fromkeys(("_imp", "pkgutil", "pydoc", "site", "ensurepip", "venv", "idlelib", "lib2to3"), CODE),
    **dict.fromkeys(("pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"), CODE),
    **dict.fromkeys(("timeit", "cProfile", "profile", "pdb", "bdb", "doctest", "trace", "unittest"), CODE),
    **dict.fromkeys(
        ("ctypes", "_ctypes", "cffi", "_cffi_backend", "numpy.ctypeslib", "logging.config"), CODE
    ),
    **dict.fromkeys(("torch.hub", "torch.utils.cpp_extension", "torch.package", "torch.jit._pickle"), CODE),
    **dict.fromkeys(("torch.utils.model_zoo", "torch.distributed.run", "torch.distributed.launcher"), CODE),
    **dict.fromkeys(("numpy.f2py", "numpy.testing", "numpy.distutils", "setuptools", "pip", "pytest"), CODE),
    **dict.fromkeys(("socket", "_socket", "ssl", "http", "urllib", "ftplib", "smtplib", "poplib"), NETWORK),
    **dict.fromkeys(("imaplib", "nntplib", "telnetlib", "xmlrpc", "socketserver", "webbrowser"), NETWORK),
    **dict.fromkeys(("requests", "urllib3", "httpx", "aiohttp", "paramiko", "fsspec", "boto3"), NETWORK),
    **dict.fromkeys(
        ("shutil", "tempfile", "fileinput", "sqlite3", "zipfile", "tarfile", "mmap", "dbm"), FILES
    ),
    **dict.fromkeys(("glob", "linecache", "tokenize", "netrc", "lzma", "gzip", "bz2"), FILES),
    **dict.fromkeys(("sys", "gc", "atexit", "signal", "faulthandler", "builtins.__dict__"), INTERPRETER),
}
"""Module -> what its names can do; the longest entry that begins a module's name counts."""

_NAMES: Mapping[str, str] = {
    **{f"builtins.{name}": CODE for name in ("eval", "exec", "compile", "__import__", "breakpoint", "input")},
    **{f"builtins.{name}": FILES for name in ("open", "print")},
    **{f"builtins.{name}": INTERPRETER for name in ("setattr", "delattr", "exit", "quit")},
    **{
        f"builtins.{name}": REFLECTION for name in ("getattr", "vars", "globals", "locals", "__build_class__")
    },
    **{f"operator.{name}": REFLECTION for name in ("attrgetter", "methodcaller")},
    **{f"{module}.{name}": FILES for module in ("io", "_io") for name in ("open", "open_code", "FileIO")},
    **dict.fromkeys(("codecs.open", "pathlib.Path.open"), FILES),
    **dict.fromkeys(("types.FunctionType", "types.CodeType", "types.LambdaType"), CODE),
    **dict.fromkeys(("numpy.load", "numpy.core.multiarray.fromfile", "pandas.read_pickle"), CODE),
    **dict.fromkeys(
        ("torch.load", "torch.serialization.load", "torch.jit.load", "torch.ops.load_library"), CODE
    ),
    **dict.fromkeys(("torch.classes.load_library", "torch.compiler.load_cache_artifacts"), CODE),
}

_HARMLESS = frozenset(
    {
        *("os.PathLike", "os.fspath", "os.environ", "os.getpid", "os.cpu_count", "os.stat_result"),
        *(
            "sys.stdin",
            "sys.stdout",
            "sys.stderr",
            "tempfile.gettempdir",
            "sys.maxsize",
            "sys.version_info",
            "sys.float_info",
            "importlib.metadata",
        ),
        *("urllib.parse", "http.HTTPStatus", "signal.Signals", "platform.system"),
    }
)

_MODULES_OF_OS = frozenset({"posixpath", "ntpath", "os.path"})
_BIRTH_WORDS = frozenset({"__subclasses__", "__globals__", "__builtins__", "__code__", "__reduce__"})


def power_of(name: Name) -> str:
    """What can be done with it ("run commands"); empty where this table has nothing to say.

    A name with dots is also read as the one that it leads to: `torch`, "os.system" is `os.system`.
    """
    for reading in _readings(name):
        found = _power(reading)
        if found:
            return found
    return REFLECTION if _BIRTH_WORDS & set(name.name.split(".")) else ""


def _readings(name: Name) -> Iterator[str]:
    """`module.name`, and what is left of it without the modules that it is reached through."""
    yield f"{name.module}.{name.name}" if name.name else name.module
    parts = name.name.split(".")
    for start in range(len(parts)):
        tail = parts[start:]
        if tail[0] in sys.stdlib_module_names and (len(tail) > 1 or start > 0 or tail[0] in _MODULES):
            yield ".".join(tail)


def _power(full: str) -> str:
    if full in _NAMES:
        return _NAMES[full]
    parts = full.split(".")
    prefixes = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
    if not _HARMLESS.isdisjoint(prefixes) or not _MODULES_OF_OS.isdisjoint(prefixes):
        return ""
    return next((_MODULES[prefix] for prefix in prefixes if prefix in _MODULES), "")


def group_of(module: str, shipped: Collection[str]) -> Group:
    """Whose a module is. `shipped`: the modules that travel in the bundle."""
    top = module.partition(".")[0]
    if module in shipped or top == "__main__":
        return "user"
    if top == "replay":
        return "replay"
    if top in ("torch", "torchgen", "functorch", "triton"):
        return "torch"
    if top in sys.stdlib_module_names:
        return "standard library"
    return "user" if top in {one.partition(".")[0] for one in shipped} else "other"
