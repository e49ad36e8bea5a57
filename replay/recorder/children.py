"""Processes that a recorded program starts through `multiprocessing`: they record too, into the same directory.

A forked child inherits the recorder with the hooks. A spawned one is told to make a recorder of the same arguments,
which begins when the child imports Dynamo, and never if it does not. Which bundles belong to one block is told by a
word in their manifests. Processes that are started otherwise (`subprocess`) are programs of their own: not recorded.
"""

from __future__ import annotations

import functools
import multiprocessing.process
import os
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from replay.bundle import load
from replay.bundle.publishing import locked
from replay.errors import RecordingWarning, ReplayError
from replay.recording import Manifest
from replay.torch_adapter import features

COARSE = 60.0
"""Seconds by which a file's time may lie before that of the clock: servers have clocks of their own."""


Failure = tuple[str, str, int | None]
"""Fingerprint, the frame's function, rank."""


class Recorder(Protocol):
    """What of a recorder matters here."""

    family: Family

    def leaving(self, error: BaseException) -> None:
        """An error leaves what is recorded."""


class Family:
    """The processes that record for one block.

    `word` is in the manifest of each bundle; `settings` make a recorder of the same kind elsewhere.
    """

    def __init__(self, settings: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        self.word = ""  # made when the block begins
        self.settings = settings
        self.started = 0.0  # when the block began, as file systems count
        self.several = False  # whether more processes than this one may write
        self.pid: int | None = None

    def began(self, directory: Path) -> None:
        """The block begins: bundles that are in the directory now are not of it."""
        self.word = self.word or os.urandom(8).hex()
        self.pid = self.pid or os.getpid()
        self.started = self.started or time.time() - COARSE
        with suppress(OSError):  # this process's own directory may be gone
            directory = directory.absolute()  # a child may run in another one
        self.settings = (), {**self.settings[1], "directory": str(directory)}

    def is_large(self) -> bool:
        """Whether other processes may have written bundles of this block."""
        return self.several or os.getpid() != self.pid

    def bundles(self, directory: Path, known: Collection[Path]) -> Iterator[tuple[Path, Any]]:
        """Bundles of this block in the directory, with their manifests, without the known ones."""
        if not self.is_large():
            return
        names = {path.name for path in known}
        try:
            paths = sorted(directory.glob("*.rec"))
        except OSError:  # whoever could not read the directory could not write to it
            return
        for path in paths:
            try:
                if path.name in names or path.stat().st_mtime < self.started:
                    continue
                with load(path) as bundle:
                    manifest = bundle.manifest
            except (ReplayError, OSError):
                continue  # somebody else's file
            if manifest.process.get("session") == self.word:
                yield path, manifest

    def sibling(self, directory: Path, known: Collection[Path], same: Failure) -> Path | None:
        """The bundle that another process of the block has written for the same failure of the same rank."""
        for path, manifest in self.bundles(directory, known):
            if (_fingerprint(manifest), manifest.frame.function, manifest.process.get("rank")) == same:
                return path
        return None

    @contextmanager
    def alone(self, directory: Path) -> Iterator[None]:
        """No other process of the block looks for a sibling or writes while this one does."""
        with locked(directory) if self.is_large() else nullcontext():
            yield


def _fingerprint(manifest: Manifest) -> str:
    """What makes its happening one with others; of a sequence of calls the frame's."""
    if manifest.error is not None:
        return manifest.error.fingerprint
    return manifest.signature if manifest.sequence is None else manifest.sequence.fingerprint


_process: Any = multiprocessing.process.BaseProcess
_lock = threading.RLock()
_active: list[Recorder] = []
_original: list[Callable[[Any], None]] = []


@contextmanager
def followed(recorder: Recorder) -> Iterator[None]:
    """While inside, processes that `multiprocessing` starts record as this one does."""
    with _lock:
        if not _active:
            _install()
        _active.append(recorder)
    try:
        yield
    finally:
        with _lock:
            _active.remove(recorder)
            if not _active:
                _process.start = _original.pop()


def _install() -> None:
    original = _process.start
    _original.append(original)

    @functools.wraps(original)
    def start(self: Any) -> None:
        recorders = tuple(_active)
        if "run" in self.__dict__ or not recorders:
            original(self)
            return
        for one in recorders:
            one.family.several = True
        self.run = Recorded(self.run, recorders)
        try:
            original(self)
        finally:
            self.__dict__.pop("run", None)

    _process.start = start


class Recorded:
    """A process's `run`, with the recorders of the process that started it. Pickled: with what makes them again."""

    def __init__(self, run: Callable[[], Any], recorders: tuple[Recorder, ...]) -> None:
        self._run, self._recorders = run, recorders

    def __call__(self) -> Any:
        """In a forked child: the hooks are here already."""
        try:
            return self._run()
        except BaseException as error:
            for one in reversed(self._recorders):
                one.leaving(error)
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        orders = [order for order in map(_order, self._recorders) if order is not None]
        return (Inherited, (self._run, orders)) if orders else (_as_it_is, (self._run,))


def _order(recorder: Recorder) -> tuple[Any, ...] | None:
    """What a spawned child needs; None if it cannot be sent, so that the program's own process starts all the same."""
    family = recorder.family
    order = (family.word, family.started, family.settings)
    try:
        pickle.dumps(order)
    except Exception:  # noqa: BLE001 - whatever the user's pattern raises
        return None
    return order


def _as_it_is(run: Callable[[], Any]) -> Callable[[], Any]:
    return run


class Inherited:
    """A process's `run` in a spawned child."""

    def __init__(self, run: Callable[[], Any], orders: list[tuple[Any, ...]]) -> None:
        self._run, self._orders = run, orders

    def __call__(self) -> Any:
        """Record from the moment on when Dynamo is there."""
        with ExitStack() as stack:

            def begin() -> None:
                for order in self._orders:
                    _enter(stack, *order)

            if features.DYNAMO in sys.modules:
                begin()
            else:
                stack.enter_context(_awaiting(begin))
            return self._run()


def _enter(
    stack: ExitStack, word: str, started: float, settings: tuple[tuple[Any, ...], dict[str, Any]]
) -> None:
    from replay.recorder.block import record

    try:
        recorder = record(*settings[0], **settings[1])
        recorder.family.word, recorder.family.several = word, True
        recorder.family.started = started
        stack.enter_context(recorder)
    except Exception as error:  # noqa: BLE001 - the program must not notice
        warnings.warn(f"replay does not record in this process: {error}", RecordingWarning, stacklevel=2)


@contextmanager
def _awaiting(begin: Callable[[], None]) -> Iterator[None]:
    """Call `begin` once, when Dynamo has been imported by whoever wants it."""
    finder = _Finder(begin)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.leave()


class _Finder(MetaPathFinder):
    """Finds torch's modules as Python would, to hear when they have been executed."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin

    def leave(self) -> None:
        """Hear no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """The spec that the other finders give, with a loader that tells."""
        if not name.startswith("torch."):
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    self._listen(spec.loader)
                return spec
        return None

    def _listen(self, loader: Loader) -> None:
        original = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            original(module)
            if self in sys.meta_path and features.DYNAMO in sys.modules and not _is_importing(module):
                self.leave()
                self._begin()

        loader.exec_module = exec_module  # type: ignore[method-assign]


def _is_importing(done: ModuleType) -> bool:
    """Whether a module of torch's is half imported, but for this one: what imports it may not be used yet."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("torch.")]
    specs = [getattr(module, "__spec__", None) for module in modules if module is not done]
    return any(getattr(spec, "_initializing", False) for spec in specs)
