"""What torch makes on the way from a frame to code that runs, handed over as it is made.

torch's structured trace brings graphs and guards as text, Inductor's debug directory its IR, and three methods that
are exchanged for a while the rest: each graph's backend call, Inductor's writing of sources, and Dynamo's new bytecode.
Nothing here decides where anything is kept.
"""

from __future__ import annotations

import dis
import functools
import io
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from replay.torch_adapter import features
from replay.torch_adapter.patching import patched, wrapped_compiler

LOGGERS = (
    "torch._dynamo",
    "torch._functorch",
    "torch._inductor",
    "torch.fx.experimental.symbolic_shapes",
)
"""Whose messages are kept, from level INFO on."""


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of torch's structured trace."""

    name: str  # "aot_forward_graph"; an artifact's own name
    compile_id: str  # "0/0"; empty where it belongs to none
    graph: str  # the graph that AOTAutograd has in hand: "model__1_forward_1"; empty outside
    payload: str  # its text; empty where there is none


class _Handler(logging.Handler):
    """Gives each record of the structured trace to a function."""

    def __init__(self, hear: Callable[[Event], None], raw: Callable[[str], None]) -> None:
        super().__init__()
        self._hear, self._raw = hear, raw
        internal = features.module("torch._logging._internal")
        self.setFormatter(features.require(internal, "TorchLogsFormatter")(trace=True))

    def emit(self, record: logging.LogRecord) -> None:
        """Called by torch for each entry."""
        self._raw(self.format(record))
        metadata: Mapping[str, Any] = getattr(record, "metadata", {})
        name = next((one for one in metadata if one not in _CONTEXT), "")
        if name == "artifact":
            name = str(metadata["artifact"].get("name", name))
        payload = getattr(record, "payload", None)
        self._hear(Event(name, _compile_id(metadata), _graph_name(), str(payload or "")))


_CONTEXT = frozenset(
    {"rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "has_payload", "stack"}
)
"""What torch adds to every entry."""


def _compile_id(metadata: Mapping[str, Any]) -> str:
    numbers = [metadata.get(name) for name in ("compiled_autograd_id", "frame_id", "frame_compile_id")]
    return "/".join(str(one) for one in numbers if one is not None)


def _graph_name() -> str:
    utils = features.module("torch._functorch._aot_autograd.logging_utils")
    inside = features.require(utils, "graph_being_compiled")
    return str(features.require(utils, "get_aot_graph_name")()) if inside else ""


@contextmanager
def structured_trace(hear: Callable[[Event], None], raw: Callable[[str], None]) -> Iterator[None]:
    """`hear` gets each entry of torch's structured trace, `raw` its line as tlparse reads it."""
    log = features.require(features.module("torch._logging._internal"), "trace_log")
    handler = _Handler(hear, raw)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@contextmanager
def logs(write: Callable[[str], None]) -> Iterator[None]:
    """`write` gets torch's log messages; whatever else would be shown of them stays as it is."""
    handler = _LogHandler(write)
    internal = features.module("torch._logging._internal")
    handler.setFormatter(features.require(internal, "TorchLogsFormatter")())
    with ExitStack() as stack:
        for name in LOGGERS:
            _attach(stack, logging.getLogger(name), handler)
        yield


class _LogHandler(logging.Handler):
    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging; a message that cannot be formatted is the sender's mistake."""
        try:
            text = self.format(record)
        except Exception as error:  # noqa: BLE001 - logging never fails the program
            text = f"<message that cannot be formatted: {type(error).__name__}: {error}>"
        self._write(text)


def _attach(stack: ExitStack, log: logging.Logger, handler: logging.Handler) -> None:
    """Add a handler that hears from INFO on. The logger's others go on hearing what they heard."""
    level, before = log.level, log.getEffectiveLevel()
    for owner in (*_above(log), *_below(log)):
        for other in owner.handlers:
            if other is not handler:
                stack.enter_context(_deafened(other, log.name, before))
    log.setLevel(min(before, logging.INFO))
    log.addHandler(handler)
    stack.callback(log.removeHandler, handler)
    stack.callback(log.setLevel, level)


def _above(log: logging.Logger) -> Iterator[logging.Logger]:
    owner: logging.Logger | None = log
    while owner is not None:
        yield owner
        owner = owner.parent if owner.propagate else None


def _below(log: logging.Logger) -> list[logging.Logger]:
    known = log.manager.loggerDict.items()
    return [one for name, one in known if name.startswith(log.name + ".") and isinstance(one, logging.Logger)]


@contextmanager
def _deafened(handler: logging.Handler, name: str, level: int) -> Iterator[None]:
    """A handler hears from a logger, and those under it, only what is at least of this level."""

    def loud(record: logging.LogRecord) -> bool:
        log, own = logging.getLogger(record.name), False
        while log.name != name and log.parent is not None:
            own = own or log.level != logging.NOTSET  # somebody asked for this one
            log = log.parent
        return record.levelno >= level or own or log.name != name

    handler.addFilter(loud)
    try:
        yield
    finally:
        handler.removeFilter(loud)


@contextmanager
def inductor_debugging(directory: Path) -> Iterator[None]:
    """Inductor writes graphs and IR of everything that it compiles under `directory`/torchinductor."""
    config = features.module("torch._inductor.config")
    wanted = {"trace.enabled": True, "trace.debug_dir": str(directory), "trace.output_code": False}
    log = logging.getLogger("torch._inductor.debug")

    def other(record: logging.LogRecord) -> bool:
        return "debug trace" not in str(record.msg)  # names a directory that is about to be renamed

    log.addFilter(other)
    try:
        with config.patch(wanted):
            yield
    finally:
        log.removeFilter(other)


@contextmanager
def sources_written(hear: Callable[[str, str], None]) -> Iterator[None]:
    """`hear(file name, text)` for each source that Inductor writes: C++, Triton, wrappers.

    Left out is what it compiles only to find out what the processor can do.
    """
    cache = features.module("torch._inductor.codecache")
    original = features.require(cache, "write")

    @functools.wraps(original)
    def write(content: Any, extension: str, *args: Any, **kwargs: Any) -> Any:
        name, path = original(content, extension, *args, **kwargs)
        asks = str(sys._getframe(1).f_globals.get("__name__", "")).endswith("cpu_vec_isa")
        if isinstance(content, str) and not asks:
            hear(f"{name}.{extension}" if "." not in name else name, content)
        return name, path

    with patched(cache, "write", write):
        yield


@contextmanager
def bytecode_made(hear: Callable[[str, CodeType, CodeType], None]) -> Iterator[None]:
    """`hear(compile id, original code, what Dynamo runs instead)` for each compiled frame."""
    convert_frame = features.module("torch._dynamo.convert_frame")

    def hook(code: CodeType, made: CodeType) -> None:
        hear(current_compile_id(), code, made)

    handle = features.require(convert_frame, "register_bytecode_hook")(hook)
    try:
        yield
    finally:
        handle.remove()


def current_compile_id() -> str:
    """The compile id of what is being compiled; empty outside."""
    context = features.require(features.module("torch._guards"), "CompileContext")
    return str(context.current_compile_id() or "").replace("!", "")


def disassemble(code: CodeType) -> str:
    """Names, constants and instructions of a code object, and of those inside it."""
    stream = io.StringIO()
    stream.write(dis.code_info(code) + "\n\n")
    dis.dis(code, file=stream)
    return stream.getvalue()


@contextmanager
def graphs_compiled(hear: Callable[[str, Any, Any], None]) -> Iterator[None]:
    """`hear(compile id, graph, inputs)` for each graph, before the backend has it."""

    def compile_graph(original: Callable[..., Any], output: Any, gm: Any, inputs: Any) -> Any:
        hear(current_compile_id(), gm, inputs)
        return original(gm, inputs)

    with wrapped_compiler(compile_graph):
        yield


def script_of(gm: Any, inputs: Any, backend: str, values: str | None) -> str:
    """A script, in torch's own form, that compiles a graph with a backend and runs it.

    The inputs' bytes are written to the directory `values`, and read from there; without one torch makes them up.
    Raises whatever torch raises for a graph that it cannot write down.
    """
    repro = features.module("torch._dynamo.repro.after_dynamo")
    make = features.require(repro, "generate_dynamo_fx_repro_string")
    return str(make(gm, inputs, backend, save_dir=values))


def is_registered(name: str) -> bool:
    """Whether torch.compile takes the backend by name in any program."""
    registry = features.module("torch._dynamo.backends.registry")
    return name in features.require(registry, "list_backends")(None)


def bytes_of(inputs: Any) -> int:
    """Bytes of the memory behind a graph's inputs."""
    torch = features.module("torch")
    storages = {
        one.untyped_storage()._cdata: one.untyped_storage().nbytes()
        for one in inputs
        if isinstance(one, torch.Tensor) and one.layout is torch.strided
    }
    return int(sum(storages.values()))
