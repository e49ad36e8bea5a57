"""The replay itself: load, set the state, compile the frame again, compare.

Runs in a child process that is ours alone, or in the user's own with `isolate=False`; then everything that it
changes is put back. Options are checked in `replay.replayer.launch`; nothing is printed here.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from types import CodeType
from typing import Any

from replay import fingerprint, isolation, shipping, source
from replay.bundle import Bundle, load
from replay.errors import MissingError, ReplayError, UsageError
from replay.recording import Drift, ErrorInfo, Missing, Outcome, Status
from replay.replayer import process
from replay.replayer.process import Request
from replay.replayer.seen import Seen
from replay.selection import Selection
from replay.torch_adapter import compiling, configs, environment, hooks, later, state, tensors, transforms


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The child's side: the outcome as plain data, or the error that the parent is to raise."""
    request["function"] = tuple(
        one if isinstance(one, str) else re.compile(one["regex"], one["flags"]) for one in request["function"]
    )
    try:
        return {"outcome": asdict(replay(request))}
    except ReplayError as error:
        return {"raised": type(error).__name__, "message": str(error)}


def replay(request: Request) -> Outcome:
    """Replay one request in this process."""
    started = time.perf_counter()
    isolation.announce("load")
    with ExitStack() as stack:
        bundle = stack.enter_context(load(request["path"]))
        stack.enter_context(process.variables(bundle.manifest, request))
        try:
            return _Replay(bundle, request, started).run(stack)
        except MissingError as error:
            return _lacking(bundle, request, str(error), time.perf_counter() - started)


class _Replay:
    """One replay: what it was asked, and what it has seen so far."""

    def __init__(self, bundle: Bundle, request: Request, started: float) -> None:
        self.bundle, self.manifest, self.request = bundle, bundle.manifest, request
        self.started = started
        self.drift: list[Drift] = []
        self.notes: list[str] = []
        self.seen = Seen()
        self.remapped: set[str] = set()
        self.selection = Selection(request["function"])

    def run(self, stack: ExitStack) -> Outcome:
        """Everything, in order."""
        isolated = isolation.private_directory() is not None
        process.import_torch(self.request)
        backend_name = self.request["backend"]
        backend = None if backend_name is None else compiling.resolve(backend_name)
        chosen = dict(configs.parse(key, value) for key, value in self.request["config"].items())
        chosen.update(self.request["limits"])
        self.drift += environment.drift(
            self.manifest.environment,
            environment.capture(process.installed(self.manifest.environment.packages)),
        )
        builder = tensors.TensorBuilder(
            self.manifest.tensors, self.manifest.storages, self.bundle.blob, self._device
        )
        texts = {name: self.bundle.source(entry) for name, entry in self.manifest.sources.items()}
        stack.enter_context(compiling.fresh_caches(isolated=isolated))
        loaded = stack.enter_context(shipping.loaded(self.bundle.values(), sources=texts, tensors=builder))
        root = self._root(loaded)
        recorded = {**self.manifest.config, **root["config"]}
        self.drift += stack.enter_context(configs.applied(recorded, chosen))
        self.drift += stack.enter_context(state.applied(self.manifest.state))
        for mode in root["function_modes"]:
            stack.enter_context(mode)
        backend = stack.enter_context(self._backend(root, backend))
        loading = time.perf_counter() - self.started
        gate = self._gate()
        stack.enter_context(transforms.entered(self.manifest.state.get("transforms", ())))
        subject, (positional, keywords) = self._subject(root)
        fullgraph = self._fullgraph()
        if subject is root["function"]:
            self._earlier_calls(root, fullgraph=fullgraph)
        self.drift += state.seed(self.manifest.state)
        function = compiling.compiled(
            subject,
            backend=backend,
            fullgraph=fullgraph,
            dynamic=self._dynamic(),
            options=self._options(root),
            mode=self.request["mode"],
        )
        running = time.perf_counter()
        self.seen.breaks = hooks.graph_breaks()
        self.seen.subject = subject.__code__
        with hooks.observing(self.seen.observe, gate), later.observing_backward(self.seen.observe_backward):
            self._call(function, positional, keywords)
        seconds = {"load": loading, "run": time.perf_counter() - running}
        self._check_selection()
        if self.seen.suppressed:
            self.notes.append("suppress_errors hid the error from the program: the frame ran on uncompiled")
        return self._outcome(loaded, seconds)

    def _root(self, loaded: shipping.Loaded) -> dict[str, Any]:
        if loaded.root is None:
            lost = [one for one in self.manifest.missing if one.name == "values"]
            raise MissingError("; ".join(one.reason for one in lost) or "the bundle holds no values")
        root: dict[str, Any] = loaded.root
        return root

    def _subject(self, root: Mapping[str, Any]) -> tuple[Callable[..., Any], tuple[Any, dict[str, Any]]]:
        """The function to compile, with its arguments: the frame's own, or the root of a resume function.

        A resume function has no source; its bytecode runs only on the Python that made it. Elsewhere its root is
        run from the beginning, and comes to the same place.
        """
        if not isinstance(root["function"], shipping.Placeholder):
            if self.manifest.frame.resume:
                self.notes.append("the resume function's own bytecode was replayed")
            return root["function"], root["arguments"]
        chain = root["chain"]
        if chain is None or isinstance(chain["function"], shipping.Placeholder):
            raise MissingError(f"the frame's code: {root['function']!r}")
        self.notes.append(
            f"{self.manifest.frame.name} exists only as bytecode of another Python; "
            f"{self.manifest.frame.resume_of} was replayed from its beginning"
        )
        return chain["function"], chain["arguments"]

    @contextmanager
    def _backend(self, root: Mapping[str, Any], chosen: Any) -> Iterator[Any]:
        """The backend to compile with: the chosen one, torch's, or the user's under its own name."""
        if self.request["mode"] is not None:
            compiling.check_mode(self.request["mode"], chosen or self.manifest.compile.backend)
        if chosen is not None:
            yield chosen
        elif root["backend"] is None:
            yield compiling.resolve(self.manifest.compile.backend)
        else:
            if isinstance(root["backend"], shipping.Placeholder):
                raise MissingError(f"the recorded backend: {root['backend']!r}")
            with compiling.registered(root["backend_name"], root["backend"]) as backend:
                yield backend

    def _device(self, name: str) -> str:
        """Where a device of the recording is found here; what is not becomes the CPU, and drift."""
        here = environment.nearest_device(name)
        if here != name:
            if name not in self.remapped:
                self.drift.append(Drift(f"device {name}", name, here))
            self.remapped.add(name)
        return here

    def _fullgraph(self) -> bool:
        chosen = self.request["fullgraph"]
        if chosen is not None:
            return bool(chosen)
        if self.manifest.compile.fullgraph and not self._selects_frame():
            self.notes.append("--function leaves the recorded frame uncompiled, so fullgraph is off")
            return False
        return self.manifest.compile.fullgraph

    def _backward(self) -> bool:
        chosen = self.request["backward"]
        return self.manifest.compile.backward if chosen is None else bool(chosen)

    def _dynamic(self) -> bool | None:
        chosen: bool | None = self.request["dynamic"]
        return self.manifest.compile.dynamic if chosen is None else chosen

    def _options(self, root: Mapping[str, Any]) -> dict[str, Any]:
        """The recorded options, unless another backend or mode was chosen."""
        if self.request["mode"] is not None or self.request["backend"] not in (
            None,
            self.manifest.compile.backend,
        ):
            return {}
        return dict(root["options"])

    def _selects_frame(self) -> bool:
        frame = self.manifest.frame
        return self.selection.matches_frame(frame.name, frame.function)

    def _gate(self) -> Callable[[CodeType], bool] | None:
        if not self.selection.patterns:
            return None

        def allowed(code: CodeType) -> bool:
            verdict = self.selection.matches_code(code)
            self.seen.names[verdict].add(source.qualified_name(code))
            return verdict

        return allowed

    def _check_selection(self) -> None:
        if self.selection.patterns and not self.seen.names[True]:
            offered = ", ".join(sorted(self.seen.names[False])) or "none"
            raise UsageError(
                f"--function {self.selection}: matches no function; compiled here would be: {offered}"
            )

    def _earlier_calls(self, root: Mapping[str, Any], *, fullgraph: bool) -> None:
        """Repeat, with the eager backend, the calls that compiled the frame before it failed."""
        if not root["calls"]:
            return
        isolation.announce("compile")
        function = compiling.compiled(
            root["function"], backend="eager", fullgraph=fullgraph, dynamic=self._dynamic(), options={}
        )
        failed = 0
        for call in root["calls"]:
            positional, keywords = call["arguments"]
            try:
                with state.grad(bool(call["grad"])):
                    function(*positional, **keywords)
            except Exception:  # noqa: BLE001 - see below
                failed += 1  # a call over synthetic values may fail where the recorded one did not
        self.notes.append(f"{len(root['calls'])} earlier calls were repeated first, with the eager backend")
        if failed:
            self.notes.append(f"{failed} of them raised over synthetic values")

    def _call(
        self, function: Callable[..., Any], positional: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        isolation.announce("compile")
        try:
            output = function(*positional, **keywords)
            if self._backward() and not compiling.run_backward(output):
                self.notes.append("the frame's output does not depend on anything that requires a gradient")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - also SystemExit is an outcome
            self.seen.add_run(error)
        if self.request["pdb"] and self.seen.errors:
            self._debug()

    def _debug(self) -> None:
        import pdb

        match = self._match() or self.seen.errors[0]
        trace = self.seen.traces[id(match)]
        print(  # noqa: T201 - the debugger speaks
            f"{match.type}: {match.message.splitlines()[0] if match.message else ''}", file=sys.stderr
        )
        pdb.post_mortem(trace)

    def _match(self) -> ErrorInfo | None:
        """The failure that is the recorded one, if it happened."""
        recorded = self.manifest.error
        if recorded is None:
            return None
        same_torch = _release(self.manifest.environment.torch) == _release(_torch_version())
        for error in self.seen.errors:
            if _is_for_lack(error) and not _is_for_lack(recorded):
                continue
            if fingerprint.same(recorded.fingerprint, error.fingerprint, same_torch=same_torch):
                return error
        return None

    def _outcome(self, loaded: shipping.Loaded, seconds: dict[str, float]) -> Outcome:
        match, failed = self._match(), self.seen.failures
        status: Status = "reproduced" if match else "different" if failed else "passed"
        missing = [*loaded.missing]
        if status == "different":
            lacking = self._lacking(loaded, failed)
            if lacking:
                status, missing = "missing", [*lacking, *(one for one in missing if one not in lacking)]
        compiled = tuple(self.seen.frames())
        compile_seconds = sum(frame.seconds for frame in compiled)
        return Outcome(
            bundle=str(self.bundle.path),
            status=status,
            backend=self.request["backend"] or self.manifest.compile.backend,
            function=self.manifest.frame.function,
            error=match or (failed[0] if failed else None),
            recorded_error=self.manifest.error,
            frames=compiled,
            seconds={
                "load": seconds["load"],
                "compile": compile_seconds,
                "run": max(0.0, seconds["run"] - compile_seconds),
                "total": time.perf_counter() - self.started,
            },
            drift=tuple(self.drift),
            missing=tuple(missing),
            notes=tuple(self.notes),
        )

    def _lacking(self, loaded: shipping.Loaded, failed: list[ErrorInfo]) -> list[Missing]:
        """Why another failure than the recorded one may come from what the replay lacks."""
        known = list({one.name: one for one in (*loaded.missing, *self.manifest.missing)}.values())
        lacking = [one for one in known if one.name in loaded.touched]
        lacking += [
            Missing(name, "", "was used and is not in the bundle")
            for name in dict.fromkeys(loaded.touched)
            if name not in {one.name for one in known}
        ]
        for error in failed:
            if _is_for_lack(error):
                lacking += [one for one in known if one.name not in {x.name for x in lacking}]
        if not lacking and any(name.startswith("cuda") for name in self.remapped):
            lacking = [
                Missing("a CUDA device", "", "the frame was recorded on one; its tensors are on the CPU here")
            ]
        return lacking


def _is_for_lack(error: ErrorInfo) -> bool:
    """Whether an error came of something that the recording or this machine lacks, whatever torch made of it."""
    return "MissingError" in error.message + error.traceback or "<missing " in error.message


def _lacking(bundle: Bundle, request: Request, what: str, seconds: float) -> Outcome:
    """The outcome of a replay that could not even start."""
    return Outcome(
        bundle=str(bundle.path),
        status="missing",
        backend=request["backend"] or bundle.manifest.compile.backend,
        function=bundle.manifest.frame.function,
        error=None,
        recorded_error=bundle.manifest.error,
        seconds={"load": seconds, "compile": 0.0, "run": 0.0, "total": seconds},
        missing=(Missing(what, "", "needed to replay the frame"), *bundle.manifest.missing),
    )


def _torch_version() -> str:
    return str(sys.modules["torch"].__version__)


def _release(version: str) -> str:
    """Major and minor of "2.13.0+cpu": within one release, fingerprints agree in full."""
    return ".".join(version.split(".")[:2])
