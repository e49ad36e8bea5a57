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
from replay.recording import Drift, ErrorInfo, Missing, Outcome, Status, made_up
from replay.replayer import earlier, elsewhere, process, ways
from replay.replayer.process import Request
from replay.replayer.seen import Seen
from replay.selection import Selection
from replay.torch_adapter import (
    accuracy,
    backward_nodes,
    compiling,
    configs,
    distributed,
    environment,
    fakes,
    hooks,
    later,
    stances,
    state,
    tensors,
    transforms,
)


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
        elsewhere.prepare(bundle.manifest)
        process.import_torch(request)
        return elsewhere.best(
            elsewhere.places(bundle.manifest, request),
            lambda place: _attempt(bundle, request, place, started),
        )


def _attempt(bundle: Bundle, request: Request, place: elsewhere.Place, started: float) -> Outcome:
    """One replay, at one place."""
    with ExitStack() as stack:
        try:
            return _Replay(bundle, request, place, started).run(stack)
        except MissingError as error:
            return _lacking(bundle, request, str(error), time.perf_counter() - started)


class _Replay:
    """One replay: what it was asked, and what it has seen so far."""

    def __init__(self, bundle: Bundle, request: Request, place: elsewhere.Place, started: float) -> None:
        self.bundle, self.manifest, self.request = bundle, bundle.manifest, request
        self.place = place
        self.started = started
        self.drift: list[Drift] = []
        self.notes: list[str] = []
        self.seen = Seen()
        self.remapped: set[str] = set()
        self.selection = Selection(request["function"])

    def run(self, stack: ExitStack) -> Outcome:
        """Everything, in order."""
        isolated = isolation.private_directory() is not None
        backend_name = self.request["backend"]
        backend = None if backend_name is None else compiling.resolve(backend_name)
        chosen = dict(configs.parse(key, value) for key, value in self.request["config"].items())
        chosen.update(self.request["limits"])
        self.drift += environment.drift(
            self.manifest.environment,
            environment.capture(process.installed(self.manifest.environment.packages)),
        )
        builder = tensors.TensorBuilder(
            self.manifest.tensors, self.manifest.storages, self.bundle.blob, self._device, self.place.fake
        )
        texts = {name: self.bundle.source(entry) for name, entry in self.manifest.sources.items()}
        stack.enter_context(compiling.fresh_caches(isolated=isolated))
        stack.enter_context(self.place.entered())
        self._check_captured()
        alone = stack.enter_context(distributed.pretended(self.manifest.process))
        self.notes += [alone] if alone else []
        loaded = stack.enter_context(shipping.loaded(self.bundle.values(), sources=texts, tensors=builder))
        root = self._root(loaded)
        recorded = {**self.manifest.config, **root["config"]}
        self.drift += stack.enter_context(configs.applied(recorded, chosen))
        self.drift += stack.enter_context(state.applied(self.manifest.state, self._device))
        for mode in root["function_modes"]:
            stack.enter_context(mode)
        backend = stack.enter_context(self._backend(root, backend))
        loading = time.perf_counter() - self.started
        gate = self._gate()
        stack.enter_context(transforms.entered(self.manifest.state.get("transforms", ())))
        subject, (positional, keywords) = self._subject(root)
        fullgraph = self._fullgraph()
        function = compiling.compiled(
            subject,
            backend=backend,
            fullgraph=fullgraph,
            dynamic=self._dynamic(),
            options=self._options(root),
            mode=self.request["mode"],
        )
        stance = self.manifest.state.get("stance")
        stances.set_dynamism(subject.__code__, root.get("dynamism"))
        if subject is root["function"]:
            # entries of another backend would be no reason to compile again
            itself = stance == stances.REFUSES or self.manifest.event == "recompile"
            self._earlier_calls(root, function if itself else None, fullgraph=fullgraph)
        self.drift += state.seed(self.manifest.state)
        if self.request["backend"] is None and self.request["mode"] is None and root.get("entry") is not None:
            function, positional, keywords = ways.enter(root["entry"], backend)
        running = time.perf_counter()
        self.seen.breaks = hooks.graph_breaks()
        self.seen.subject = subject.__code__
        with (
            hooks.observing(self.seen.observe, gate, wrap=self._comparison()),
            later.observing_backward(self.seen.observe_backward),
            stances.refusing(stance),
            backward_nodes.region(inside=self.manifest.compile.entry == "compiled_autograd"),
        ):
            self._call(function, positional, keywords)
        seconds = {"load": loading, "run": time.perf_counter() - running}
        self._check_selection()
        self.notes += self.seen.unsure
        if self.seen.suppressed:
            self.notes.append("suppress_errors hid the error from the program: the frame ran on uncompiled")
        return self._outcome(loaded, seconds)

    def _check_captured(self) -> None:
        here, there = _release(_torch_version()), _release(self.manifest.environment.torch)
        if self.manifest.compile.entry == "compiled_autograd" and here != there:
            self.notes.append(
                f"the backward graph is code of torch {there}; torch {here} may not be able to run it"
            )

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
        """Where a device of the recording goes; another than the recorded one is drift."""
        here = self.place.device_for(name)
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

    def _comparison(self) -> hooks.Wrapper | None:
        """Wrong numbers are looked for where the recording is of them, with its tolerance."""
        recorded = self.manifest.difference
        if recorded is None:
            return None
        return accuracy.Comparing(
            self.seen.observe_difference, self.seen.unsure.append, recorded.tolerance, lambda code: True
        ).wrap

    def _check_selection(self) -> None:
        if self.selection.patterns and not self.seen.names[True]:
            offered = ", ".join(sorted(self.seen.names[False])) or "none"
            raise UsageError(
                f"--function {self.selection}: matches no function; compiled here would be: {offered}"
            )

    def _earlier_calls(self, root: Mapping[str, Any], subject: Any, *, fullgraph: bool) -> None:
        """Repeat the calls that compiled the frame before it failed, with the eager backend unless as `subject`."""
        if not root["calls"]:
            return
        isolation.announce("compile")
        function = subject or compiling.compiled(
            root["function"], backend="eager", fullgraph=fullgraph, dynamic=self._dynamic(), options={}
        )
        failed = 0
        for call in root["calls"]:
            positional, keywords = call["arguments"]
            try:
                before = earlier.as_then(call.get("before"), root["function"])
                with state.grad(bool(call["grad"])), before, self.place.running(backward=False):
                    function(*positional, **keywords)
            except Exception:  # noqa: BLE001 - see below
                failed += 1  # a call over synthetic values may fail where the recorded one did not
        how = "" if subject else ", with the eager backend"
        count = len(root["calls"])
        calls = "earlier call was" if count == 1 else "earlier calls were"
        self.notes.append(f"{count} {calls} repeated first{how}")
        if failed:
            self.notes.append(f"{failed} of them raised over synthetic values")

    def _call(
        self, function: Callable[..., Any], positional: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        isolation.announce("compile")
        try:
            with self.place.running(backward=self._backward()):
                output = function(*positional, **keywords)
                if self._backward() and not compiling.run_backward(output):
                    self.notes.append(
                        "the frame's output does not depend on anything that requires a gradient"
                    )
        except KeyboardInterrupt:
            raise
        except fakes.StoppedError as stop:
            self.notes.append(str(stop))
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
        for error in self.seen.errors:
            if _is_for_lack(error) and not _is_for_lack(recorded):
                continue
            if self._same(recorded.fingerprint, error.fingerprint):
                return error
        return None

    def _recompile(self) -> str | None:
        """The reason of the recompilation that is the recorded one, if it happened."""
        if self.manifest.event != "recompile":
            return None
        found = (why for one, why in self.seen.recompiles if self._same(self.manifest.signature, one))
        return next(found, None)

    def _same(self, recorded: str, seen: str) -> bool:
        same_torch = _release(self.manifest.environment.torch) == _release(_torch_version())
        return fingerprint.same(recorded, seen, same_torch=same_torch and self._goes_the_same_way())

    def _goes_the_same_way(self) -> bool:
        """Whether the failure is to come through the same functions of torch.

        With another backend an export does not, and what running code goes through is the backend's.
        """
        if self.request["backend"] is None and self.request["mode"] is None:
            return True
        error = self.manifest.error
        ran = error is not None and error.stage == "runtime"
        return self.manifest.compile.entry == "compile" and not ran

    def _outcome(self, loaded: shipping.Loaded, seconds: dict[str, float]) -> Outcome:
        match, failed, reason = self._match(), self.seen.failures, self._recompile()
        again = match is not None or reason is not None
        status: Status = "reproduced" if again else "different" if failed else "passed"
        missing = [*loaded.missing]
        if status == "different":
            lacking = self._lacking(loaded, failed)
            if lacking:
                status, missing = "missing", [*lacking, *(one for one in missing if one not in lacking)]
        if status == "passed":
            self.notes += self._made_up()
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
            reason=reason or "",
            recorded_reason=self.manifest.reason,
            difference=self.seen.differences.get(id(match or (failed[0] if failed else None))),
            notes=tuple(self.notes),
        )

    def _made_up(self) -> list[str]:
        """That the recorded failure may depend on values which the bundle does not have; nothing if it has all."""
        found = made_up(self.manifest.storages)
        if not found or self.manifest.error is None or self.request["backend"] is not None:
            return []
        size = sum(found.values()) / 1e6
        what = "1 tensor storage holds" if len(found) == 1 else f"{len(found)} tensor storages hold"
        return [f"{what} made-up values ({size:.1f} MB); the recorded failure may depend on the real ones"]

    def _lacking(self, loaded: shipping.Loaded, failed: list[ErrorInfo]) -> list[Missing]:
        """Why another failure than the recorded one may come from what the replay lacks."""
        known = list({one.name: one for one in (*loaded.missing, *self.manifest.missing)}.values())
        lacking = [one for one in known if one.name in loaded.touched]
        left_out = {one.name: one for one in self.manifest.left_out}
        lacking += [
            Missing(name, one.type, shipping.LEFT_OUT)
            for name, one in left_out.items()
            if name in loaded.touched
        ]
        lacking += [
            Missing(name, "", "was used and is not in the bundle")
            for name in dict.fromkeys(loaded.touched)
            if name not in {one.name for one in known} | left_out.keys()
        ]
        for error in failed:
            if _is_for_lack(error):
                lacking += [one for one in known if one.name not in {x.name for x in lacking}]
        moved = any(name.startswith("cuda") for name in self.remapped)
        return lacking or self.place.lacking(failed, moved=moved)


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
