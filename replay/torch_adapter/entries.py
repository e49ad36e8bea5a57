"""The ways to the compiler that are no call of a compiled function: torch.export, torch._dynamo.export, aot_compile.

Some of them never pass the hook of `replay.torch_adapter.hooks`, others do, but say too little there. So the
functions that all of them come through are wrapped while somebody observes: module, arguments and options are
known there, with `strict=False` as well. A wrapped function costs nothing until somebody exports. Calling an
entry again, for a replay, lives here too. Nothing is written, and no attempt is judged here.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, Literal

from replay.errors import MissingError
from replay.torch_adapter import features

Name = Literal["compile", "export", "dynamo_export", "aot_compile", "compiled_autograd"]
"""How a frame came to the compiler; `CompileInfo.entry` holds one of them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One call of an entry: what was handed over, as it was handed over."""

    name: Name
    subject: Any  # the module or function
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    options: Mapping[str, Any]  # keyword arguments of the entry itself


@dataclass(frozen=True, slots=True)
class Traced:
    """The frame that an entry traces: the code of the subject, with its variables at the first instruction."""

    code: CodeType
    f_globals: dict[str, Any]
    f_locals: Mapping[str, Any]
    closure: tuple[CellType, ...]


@dataclass(slots=True)
class Converter:
    """Stands where an attempt has torch's converter. An export captures one graph and compiles nothing."""

    _torchdynamo_orig_backend: Any
    _one_graph: bool = True
    _box: Any = None
    _recompile_limit: int | None = None
    dynamic: bool | None = None


Failed = Callable[[Entry, Traced, Converter, BaseException], None]
"""Called with an entry that raised."""


@dataclass(slots=True)
class _Running:
    """An entry that is under way: attempts that failed inside it belong to it, if it fails in the end."""

    name: Name
    pending: list[Any] = field(default_factory=list)


_local = threading.local()
_PLACES = (
    ("torch.export._trace", "_export"),
    ("torch._dynamo.eval_frame", "export"),
    ("torch._dynamo", "export"),
    ("torch._dynamo.aot_compile", "aot_compile_fullgraph"),
)


def install(failed: Failed, release: Callable[[Any], None]) -> Callable[[], None]:
    """Wrap the entries; returns what puts them back.

    `failed`: called for an entry that raised, in the thread that called it. `release`: called for an attempt that
    `held` kept back, where the entry itself then went well.
    """
    wraps = {"_export": _wrap_export, "export": _wrap_dynamo_export, "aot_compile_fullgraph": _wrap_aot}
    originals = []
    made: dict[int, Any] = {}
    for module_name, name in _PLACES:
        module = features.module(module_name)
        original = features.require(module, name)
        if id(original) not in made:
            made[id(original)] = wraps[name](original, failed, release)
        originals.append((module, name, original, made[id(original)]))
    for module, name, _, wrapped in originals:
        setattr(module, name, wrapped)

    def put_back() -> None:
        for module, name, original, _ in originals:
            setattr(module, name, original)

    return put_back


def held(attempt: Any) -> bool:
    """Whether an attempt that raised is kept back, because an entry is under way that it belongs to."""
    running = getattr(_local, "running", None)
    if not running:
        return False
    running[-1].pending.append(attempt)
    return True


def _watch(call: Callable[[], Any], describe: Callable[[], Entry], failed: Failed, release: Any) -> Any:
    """Run an entry. Of entries in entries only the outermost is told."""
    running = _local.running = getattr(_local, "running", None) or []
    if running:
        return call()
    entry = describe()
    mine = _Running(entry.name)
    running.append(mine)
    try:
        result = call()
    except BaseException as error:
        running.pop()
        backend = entry.options.get("backend")
        traced = _traced_or_none(entry) if isinstance(error, Exception) else None
        if traced is not None:
            failed(entry, traced, Converter(_eager() if backend is None else backend), error)
        raise
    running.pop()
    for attempt in mine.pending:
        release(attempt)
    return result


def _wrap_export(original: Any, failed: Failed, release: Any) -> Any:
    @functools.wraps(original)
    def _export(mod: Any, args: Any, kwargs: Any = None, dynamic_shapes: Any = None, **options: Any) -> Any:
        def describe() -> Entry:
            kept = {name: options[name] for name in _EXPORT_OPTIONS if name in options}
            return Entry(
                "export", mod, (args, dict(kwargs or {})), {"dynamic_shapes": dynamic_shapes, **kept}
            )

        return _watch(
            lambda: original(mod, args, kwargs, dynamic_shapes, **options), describe, failed, release
        )

    return _export


_EXPORT_OPTIONS = ("strict", "preserve_module_call_signature", "prefer_deferred_runtime_asserts_over_guards")
"""What torch.export.export takes, of what it hands on."""


def _wrap_dynamo_export(original: Any, failed: Failed, release: Any) -> Any:
    @functools.wraps(original)
    def export(f: Any, *extra: Any, **options: Any) -> Any:
        if extra:  # the old way to call it: function and arguments at once
            names = {name: options.pop(name) for name in list(options) if name not in known}
            return export(f, **options)(*extra, **names)
        inner = original(f, **options)

        @functools.wraps(inner)
        def run(*args: Any, **kwargs: Any) -> Any:
            kept = {name: value for name, value in options.items() if not name.startswith("_")}
            return _watch(
                lambda: inner(*args, **kwargs),
                lambda: Entry("dynamo_export", f, (args, kwargs), kept),
                failed,
                release,
            )

        return run

    known = set(inspect.signature(original).parameters)
    return export


def _wrap_aot(original: Any, failed: Failed, release: Any) -> Any:
    @functools.wraps(original)
    def aot_compile_fullgraph(model: Any, example_inputs: Any, *args: Any, **options: Any) -> Any:
        positional, keywords = example_inputs
        bound = inspect.signature(original).bind(model, example_inputs, *args, **options).arguments

        def describe() -> Entry:
            kept: dict[str, Any] = {name: bound[name] for name in ("backend", "dynamic") if name in bound}
            return Entry("aot_compile", model, (tuple(positional), dict(keywords)), kept)

        return _watch(lambda: original(model, example_inputs, *args, **options), describe, failed, release)

    return aot_compile_fullgraph


def _eager() -> Any:
    registry = features.module("torch._dynamo.backends.registry")
    return features.require(registry, "lookup_backend")("eager")


def _traced_or_none(entry: Entry) -> Traced | None:
    """None where there is no frame: the arguments do not fit the function, which is no failure of a compiler."""
    function, owner = _function(entry.subject)
    if function is None:
        return None
    positional, keywords = entry.arguments
    try:
        signature = inspect.signature(function, follow_wrapped=False)
        bound = signature.bind(*owner, *positional, **keywords)
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    return Traced(
        function.__code__, function.__globals__, dict(bound.arguments), tuple(function.__closure__ or ())
    )


def _function(subject: Any) -> tuple[FunctionType | None, tuple[Any, ...]]:
    """The Python function behind what an entry was given, and the object that it is bound to."""
    found = subject.forward if isinstance(subject, features.module("torch").nn.Module) else subject
    if not isinstance(found, (FunctionType, MethodType)):
        found = getattr(found, "__call__", None)  # noqa: B004 - its method is wanted, not whether there is one
    if isinstance(found, MethodType):
        return (found.__func__, (found.__self__,)) if isinstance(found.__func__, FunctionType) else (None, ())
    return (found, ()) if isinstance(found, FunctionType) else (None, ())


def again(name: str, subject: Any, options: Mapping[str, Any], backend: Any) -> Callable[..., Any]:
    """A function of the subject's arguments that enters the compiler as the recorded program did.

    `backend`: for aot_compile. Raises MissingError for a name that this version does not know.
    """
    torch = features.module("torch")
    if name == "export":
        return lambda *args, **kwargs: torch.export.export(subject, args, kwargs or None, **options)
    if name == "dynamo_export":
        return _graph(subject, options)
    if name == "aot_compile":
        return _ahead(torch, subject, options.get("dynamic"), backend)
    raise MissingError(f"this torch-replay knows no way into the compiler with the name {name!r}")


def _graph(subject: Any, options: Mapping[str, Any]) -> Callable[..., Any]:
    """`torch._dynamo.export`, looked up when it is called: it may be observed by then."""

    def run(*args: Any, **kwargs: Any) -> Any:
        export = features.require(features.module("torch._dynamo"), "export")
        return export(subject, **options)(*args, **kwargs)

    return run


def _ahead(torch: Any, subject: Any, dynamic: bool | None, backend: Any) -> Callable[..., Any]:
    """`torch.compile(...).aot_compile`, which torch offers only under a config of its own."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with features.module("torch._dynamo").config.patch(enable_aot_compile=True):
            compiled = torch.compile(subject, backend=backend, fullgraph=True, dynamic=dynamic)
            return compiled.aot_compile((args, kwargs))

    return run
