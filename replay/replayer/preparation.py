"""From a bundle to a function that is ready to be called: load, set config and state, find the backend.

Nothing here calls the frame or judges what comes of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from replay import isolation, shipping
from replay.errors import MissingError
from replay.replayer import earlier, process, settings, ways
from replay.replayer.task import Task
from replay.torch_adapter import (
    compiling,
    configs,
    distributed,
    environment,
    stances,
    state,
    transforms,
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A frame whose values are loaded, under the config and the state of the replay."""

    task: Task
    loaded: shipping.Loaded
    root: Mapping[str, Any]  # the values' root: function, arguments, backend, calls, ...
    subject: Callable[..., Any]  # the function, uncompiled
    positional: tuple[Any, ...]
    keywords: dict[str, Any]
    backend: Any  # as torch.compile takes it
    fullgraph: bool
    options: Mapping[str, Any]
    loading: float  # seconds since the task began

    def compiled(self) -> Callable[..., Any]:
        """`torch.compile` of the subject, as it was recorded or as the request says."""
        return compiling.compiled(
            self.subject,
            backend=self.backend,
            fullgraph=self.fullgraph,
            dynamic=self.task.dynamic,
            options=self.options,
            mode=self.task.request["mode"],
        )

    def entered(
        self, function: Callable[..., Any]
    ) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """What to call with what: the function, or the way by which the program went into the compiler."""
        entry = self.root.get("entry")
        if not self.task.as_recorded or entry is None:
            return function, self.positional, self.keywords
        return ways.enter(entry, self.backend)

    def repeat_calls(self, function: Callable[..., Any]) -> None:
        """Repeat the calls that compiled the frame before it failed.

        With the eager backend; where a second compilation is the event itself, with the compiled `function`:
        entries of another backend would be no reason to compile again. A sequence is repeated under the hooks: see
        `sequence`.
        """
        if not self.task.compiles or self.task.manifest.sequence is not None:
            return
        stance = self.task.manifest.state.get("stance")
        itself = stance == stances.REFUSES or self.task.manifest.event == "recompile"
        self.repeat(function if itself else None)

    def repeat(self, function: Callable[..., Any] | None) -> None:
        """The same with the function that is to be called; None: compiled with the eager backend."""
        if self.subject is self.root["function"] and self.root["calls"]:
            _repeat(self, function)


def prepare(task: Task, stack: ExitStack) -> Prepared:
    """Load the frame and set all that it was compiled under; the stack puts it back.

    Raises MissingError if the frame's code, its values or its backend are not there, UsageError for an option that
    this torch cannot honour.
    """
    manifest, request = task.manifest, task.request
    backend = None if request["backend"] is None else compiling.resolve(request["backend"])
    chosen = dict(configs.parse(key, value) for key, value in request["config"].items())
    chosen.update(request["limits"])
    task.drift += environment.drift(
        manifest.environment, environment.capture(process.installed(manifest.environment.packages))
    )
    stack.enter_context(compiling.fresh_caches(isolated=isolation.private_directory() is not None))
    stack.enter_context(task.place.entered())
    _check_captured(task)
    alone = stack.enter_context(distributed.pretended(manifest.process))
    task.notes += [alone] if alone else []
    loaded = stack.enter_context(_loaded(task))
    root = _root(task, loaded)
    task.drift += stack.enter_context(configs.applied({**manifest.config, **root["config"]}, chosen))
    task.drift += stack.enter_context(state.applied(manifest.state, task.device))
    for mode in root["function_modes"]:
        stack.enter_context(mode)
    backend = stack.enter_context(_backend(task, root, backend))
    loading = time.perf_counter() - task.started - task.aside
    stack.enter_context(transforms.entered(manifest.state.get("transforms", ())))
    subject, (positional, keywords) = _subject(task, root)
    stances.set_dynamism(subject.__code__, root.get("dynamism"))
    return Prepared(
        task=task,
        loaded=loaded,
        root=root,
        subject=subject,
        positional=positional,
        keywords=keywords,
        backend=backend,
        fullgraph=_fullgraph(task),
        options=_options(task, root),
        loading=loading,
    )


def _check_captured(task: Task) -> None:
    here, there = release(torch_version()), release(task.manifest.environment.torch)
    if task.manifest.compile.entry == "compiled_autograd" and here != there:
        task.notes.append(
            f"the backward graph is code of torch {there}; torch {here} may not be able to run it"
        )


@contextmanager
def _loaded(task: Task) -> Iterator[shipping.Loaded]:
    manifest, bundle = task.manifest, task.bundle
    builder = task.builder(manifest.tensors, manifest.storages, bundle.blob, task.device, task.place.fake)
    texts = {name: bundle.source(entry) for name, entry in manifest.sources.items()}
    with shipping.loaded(bundle.values(), sources=texts, tensors=builder) as loaded:
        yield loaded


def _root(task: Task, loaded: shipping.Loaded) -> dict[str, Any]:
    if loaded.root is None:
        lost = [one for one in task.manifest.missing if one.name == "values"]
        raise MissingError("; ".join(one.reason for one in lost) or "the bundle holds no values")
    return settings.reduced_values(loaded.root, task.request["without"])


def _subject(task: Task, root: Mapping[str, Any]) -> tuple[Callable[..., Any], tuple[Any, dict[str, Any]]]:
    """The function to compile, with its arguments: the frame's own, or the root of a resume function.

    A resume function has no source; its bytecode runs only on the Python that made it. Elsewhere its root is
    run from the beginning, and comes to the same place.
    """
    frame = task.manifest.frame
    if not isinstance(root["function"], shipping.Placeholder):
        if frame.resume:
            task.notes.append("the resume function's own bytecode was replayed")
        return root["function"], root["arguments"]
    chain = root["chain"]
    if chain is None or isinstance(chain["function"], shipping.Placeholder):
        raise MissingError(f"the frame's code: {root['function']!r}")
    task.notes.append(
        f"{frame.name} exists only as bytecode of another Python; "
        f"{frame.resume_of} was replayed from its beginning"
    )
    return chain["function"], chain["arguments"]


@contextmanager
def _backend(task: Task, root: Mapping[str, Any], chosen: Any) -> Iterator[Any]:
    """The backend to compile with: the chosen one, torch's, or the user's under its own name."""
    if task.request["mode"] is not None:
        compiling.check_mode(task.request["mode"], chosen or task.manifest.compile.backend)
    if chosen is not None:
        yield chosen
    elif root["backend"] is None:
        yield compiling.resolve(task.manifest.compile.backend)
    else:
        if isinstance(root["backend"], shipping.Placeholder):
            raise MissingError(f"the recorded backend: {root['backend']!r}")
        with compiling.registered(root["backend_name"], root["backend"]) as backend:
            yield backend


def _fullgraph(task: Task) -> bool:
    chosen = task.request["fullgraph"]
    if chosen is not None:
        return bool(chosen)
    recorded, frame = task.manifest.compile.fullgraph, task.manifest.frame
    if recorded and not task.selection.matches_frame(frame.name, frame.function):
        task.notes.append("--function leaves the recorded frame uncompiled, so fullgraph is off")
        return False
    return recorded


def _options(task: Task, root: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded options, unless another backend or mode was chosen."""
    if task.request["mode"] is not None or task.backend != task.manifest.compile.backend:
        return {}
    return dict(root["options"])


def _repeat(prepared: Prepared, subject: Callable[..., Any] | None) -> None:
    task, root = prepared.task, prepared.root
    isolation.announce("compile")
    function = subject or compiling.compiled(
        root["function"],
        backend="eager",
        fullgraph=prepared.fullgraph,
        dynamic=task.dynamic,
        options={},
    )
    failed = 0
    for call in root["calls"]:
        positional, keywords = call["arguments"]
        try:
            before = earlier.as_then(call.get("before"), root["function"])
            with state.grad(bool(call["grad"])), before, task.place.running(backward=False):
                function(*positional, **keywords)
        except Exception:  # noqa: BLE001 - see below
            failed += 1  # a call over synthetic values may fail where the recorded one did not
    how = "" if subject else ", with the eager backend"
    count = len(root["calls"])
    calls = "earlier call was" if count == 1 else "earlier calls were"
    task.notes.append(f"{count} {calls} repeated first{how}")
    if failed:
        task.notes.append(f"{failed} of them raised over synthetic values")


def torch_version() -> str:
    """The version of the torch that is loaded."""
    return str(sys.modules["torch"].__version__)


def release(version: str) -> str:
    """Major and minor of "2.13.0+cpu": within one release, fingerprints agree in full."""
    return ".".join(version.split(".")[:2])
