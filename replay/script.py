"""Run somebody's program as Python itself would: a script, a module, a directory or zip file to be run.

Sets `sys.argv`, `sys.path[0]` and a real `__main__`, and puts all of it back. Prints nothing, parses no
options, knows nothing of recording: it runs what it is told and lets every exception out.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import (
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from replay.errors import UsageError


@dataclass(frozen=True, slots=True)
class Program:
    """What stands after `python` on a command line."""

    name: str  # a path, or after -m a module's name
    args: tuple[str, ...] = ()
    is_module: bool = False  # python -m


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A program that was found: how `__main__` looks, and how its code is fetched."""

    argv0: str
    path0: str
    attributes: dict[str, Any]
    fetch: Callable[[], CodeType]


@contextmanager
def prepared(program: Program) -> Iterator[Callable[[], None]]:
    """Find the program and set the interpreter up for it; yields the function that runs it.

    That function returns when the program ends, and waits for the threads that Python would wait for.
    Whatever the program raises comes out of it unchanged, SystemExit and SyntaxError too. Inside the block
    `sys.argv`, `sys.path` and `sys.modules["__main__"]` are the program's; after it they are what they were.

    Raises UsageError where there is no such program. Finding `-m pkg.module` imports `pkg`, as Python does:
    an error in there is the program's, and comes out as it is.
    """
    argv, path, main = sys.argv, sys.path, sys.modules["__main__"]
    sys.argv, sys.path = [program.name, *program.args], list(path)
    try:
        loaded = _find_module(program) if program.is_module else _find_file(program)
        sys.argv[0] = loaded.argv0
        _set_first_path(loaded.path0)
        module = _make_main(loaded.attributes)
        sys.modules["__main__"] = module
        yield lambda: _run(loaded, module)
    finally:
        sys.argv, sys.path, sys.modules["__main__"] = argv, path, main


def strip_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's first frame on; None where the program never began (a SyntaxError).

    A traceback that never passed through this module comes back as it is.
    """
    position, stripped = traceback, traceback
    while position is not None:
        following = position.tb_next
        if position.tb_frame.f_code.co_filename == __file__:
            stripped = following
        position = following
    return stripped


def exit_code_of(error: BaseException) -> tuple[int, str | None]:
    """The code with which Python ends after this exception, and the text that `sys.exit("text")` prints.

    Any exception but SystemExit counts as 1, KeyboardInterrupt as 130 (what a shell reports).
    """
    if isinstance(error, KeyboardInterrupt):
        return 130, None
    if not isinstance(error, SystemExit):
        return 1, None
    if error.code is None:
        return 0, None
    return (error.code, None) if isinstance(error.code, int) else (1, str(error.code))


def _run(loaded: _Loaded, module: ModuleType) -> None:
    try:
        exec(loaded.fetch(), module.__dict__)
    except SystemExit:
        _join_threads()
        raise
    _join_threads()


def _join_threads() -> None:
    """Wait as Python does at its end. After an exception Python prints first, so then nobody waits here.

    The threads of an executor are left to Python: they end when it tells them to, at the very end. Inductor has one.
    """
    pools = sys.modules.get("concurrent.futures.thread")
    left = {threading.current_thread(), threading.main_thread(), *getattr(pools, "_threads_queues", ())}
    for thread in threading.enumerate():
        if not thread.daemon and thread not in left:
            thread.join()


def _make_main(attributes: dict[str, Any]) -> ModuleType:
    module = ModuleType("__main__")
    # The names that the interpreter itself puts there (3.10 to 3.13).
    usual = {"__annotations__": {}, "__builtins__": builtins, "__cached__": None, "__package__": None}
    module.__dict__.update({**usual, **attributes})
    return module


def _set_first_path(folder: str) -> None:
    """Python puts the program's folder first; under -P or -I it puts nothing there, and neither do we."""
    if not (getattr(sys.flags, "safe_path", False) or sys.flags.isolated):
        sys.path[:1] = [folder]


def _find_file(program: Program) -> _Loaded:
    path = Path(program.name)
    absolute = str(Path.cwd() / path)  # not normalised: neither does Python
    found = PathFinder.find_spec("__main__", [absolute]) if _is_importable(path) else None
    if found is not None and found.origin is not None:
        return _Loaded(program.name, absolute, _attributes(found, package=""), _fetch_from(found))
    if not path.exists():
        raise UsageError(f"no such script: {program.name!r}")
    if path.is_dir():
        raise UsageError(f"{program.name!r} is a directory without __main__.py; name the script to run")
    kind = SourcelessFileLoader if path.suffix == ".pyc" else SourceFileLoader
    loader = kind("__main__", absolute)
    attributes = {"__file__": absolute, "__loader__": loader, "__spec__": None}
    return _Loaded(program.name, str(path.resolve().parent), attributes, lambda: _read_code(loader, absolute))


def _is_importable(path: Path) -> bool:
    """A directory or a zip file; the latter is known by its end: an executable one begins with anything."""
    if path.is_dir():
        return True
    if path.suffix in (".py", ".pyc") or not path.is_file():
        return False
    from zipfile import is_zipfile

    return is_zipfile(path)


def _read_code(loader: SourceFileLoader | SourcelessFileLoader, filename: str) -> CodeType:
    if isinstance(loader, SourcelessFileLoader):
        return _fetch(loader, "__main__")
    # Not loader.get_code: Python writes no __pycache__ for a script.
    return _compile(loader.get_data(filename), filename)


def _compile(source: bytes | str, filename: str) -> CodeType:
    code: CodeType = compile(source, filename, "exec", dont_inherit=True)
    return code


def _find_module(program: Program) -> _Loaded:
    folder = str(Path.cwd())
    _set_first_path(folder)
    sys.argv[0] = "-m"  # what Python shows to the packages that it imports on the way
    spec = _find_spec(program.name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _find_spec(f"{program.name}.__main__")
        if spec is None:
            raise UsageError(f"-m {program.name}: is a package without __main__; it cannot be run")
    if spec is None:
        raise UsageError(f"no module named {program.name!r} (searched from {folder})")
    if spec.origin in (None, "built-in") or not hasattr(spec.loader, "get_code"):
        raise UsageError(f"-m {program.name}: has no code that can be run")
    return _Loaded(str(spec.origin), folder, _attributes(spec, package=spec.parent or ""), _fetch_from(spec))


def _find_spec(name: str) -> ModuleSpec | None:
    """Imports the parent packages; an error in one of them is the program's own, and comes out as it is."""
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            return None  # a parent of the module itself is not there
        raise
    except ValueError:
        return None  # a name such as "a..b", or a module without a spec


def _attributes(spec: ModuleSpec, *, package: str) -> dict[str, Any]:
    return {
        "__file__": spec.origin,
        "__loader__": spec.loader,
        "__spec__": spec,
        "__package__": package,
        "__cached__": spec.cached,
    }


def _fetch_from(spec: ModuleSpec) -> Callable[[], CodeType]:
    return lambda: _fetch(spec.loader, spec.name)


def _fetch(loader: Any, name: str) -> CodeType:
    # No type says that all these loaders have get_code: zipimporter only behaves as an InspectLoader.
    code: CodeType | None = loader.get_code(name)
    if code is None:  # an extension module
        raise ImportError(f"No code object available for {name}", name=name)
    return code
