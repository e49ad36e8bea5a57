"""How a frame was compiled, and compiling it again.

A backend is known in one of three ways: a name that torch itself registers, an object of the user's (shipped
with the values), or not at all.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from replay.errors import MissingError, UsageError
from replay.torch_adapter import backends, features
from replay.torch_adapter.patching import patched

_INNER = "_torchdynamo_orig_backend"
"""Where torch's wrappers keep what they wrap (torch >= 2.9)."""

UNCOMPILED = backends.UNCOMPILED


class Backend:
    """The backend of an attempt: `name` to show, `shipped` the user's object where it is not torch's own.

    `registered`: the string that the user passed to torch.compile. `dynamic`: the user's choice. `options`: with
    the mode expanded for Inductor, else what the user passed on.
    """

    __slots__ = ("dynamic", "name", "options", "registered", "shipped")

    def __init__(self, converter: Any) -> None:
        found = innermost(features.require(converter, _INNER))
        self.dynamic: bool | None = getattr(found, "dynamic", None)
        self.options: dict[str, Any] = dict(getattr(found, "config", None) or {})
        self.registered: str | None = getattr(found, "compiler_name", None)
        self.shipped: Any = None
        if type(found).__name__ == "_TorchCompileWrapper":
            self.options = dict(found.kwargs.get("options") or {})
            if "mode" in found.kwargs:
                self.options = {**self.options, "mode": found.kwargs["mode"]}
            found = found.compiler_fn
        if type(found).__name__ == "_TorchCompileInductorWrapper":
            self.name = "inductor"
            return
        own_name = torch_name(found)
        if own_name is not None:
            self.name = self.registered = own_name
            return
        self.name = _qualified(found)
        self.shipped = found
        if self.registered not in _registry():
            self.registered = None


def innermost(backend: Any) -> Any:
    """The backend itself, under everything that torch and others have wrapped around it."""
    while hasattr(backend, _INNER):
        backend = getattr(backend, _INNER)
    return backend


def torch_name(function: Any) -> str | None:
    """The name under which torch itself registers a backend; None for a user's own."""
    compile_fx = getattr(function, "__name__", "") == "compile_fx"
    if compile_fx and getattr(function, "__module__", "").startswith("torch._inductor"):
        return "inductor"
    for name, registered in _registry().items():
        if registered is function and str(getattr(function, "__module__", "")).startswith(
            ("torch.", "functorch")
        ):
            return name
    return None


def resolve(name: str) -> str | Callable[..., Any]:
    """`--backend`: a registered name, UNCOMPILED, or `module:attribute`.

    UsageError for what is neither, or needs more than its name; MissingError for one whose package is not here.
    """
    if ":" in name:
        return _imported(name)
    known = [UNCOMPILED, *backends.names()]
    chosen = backends.ALIASES.get(name, name)
    if chosen in known:
        _check_usable(chosen)
        return chosen
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    hint = (
        f"did you mean {close[0]!r}?"
        if close
        else f"known here: {', '.join(known)}; --backend help says what each does"
    )
    raise UsageError(
        f"--backend {name!r}: no such backend in torch {features.module('torch').__version__}; {hint}"
    )


def _check_usable(name: str) -> None:
    package, arguments = backends.absent_package(name), backends.wanted_arguments(name)
    if package is not None:
        raise MissingError(f"the package {package}, which the backend {name} needs")
    if arguments:
        raise UsageError(
            f"--backend {name!r}: it must be given {', '.join(arguments)}, which a name cannot say; write a function "
            "of a graph and its inputs that calls it, and name that as module:function"
        )


def check_mode(mode: str, backend: Any) -> None:
    """UsageError unless the mode is one of Inductor's and the backend is Inductor."""
    torch = features.module("torch")
    if backend != "inductor":
        raise UsageError(f"--mode {mode!r}: only the inductor backend has modes; add --backend inductor")
    options = features.require(features.module("torch._inductor"), "list_mode_options")()
    known = list(dict.fromkeys(["default", *options]))
    if mode not in known:
        raise UsageError(f"--mode {mode!r}: torch {torch.__version__} knows {', '.join(known)}")


def compiled(
    function: Callable[..., Any],
    *,
    backend: Any,
    fullgraph: bool,
    dynamic: bool | None,
    options: Mapping[str, Any],
    mode: str | None = None,
) -> Callable[..., Any]:
    """`torch.compile` as the recorded program called it; the function itself where the backend is UNCOMPILED."""
    if backend == UNCOMPILED:
        return function
    torch = features.module("torch")
    chosen = dict(options)
    mode = mode or chosen.pop("mode", None)
    result: Callable[..., Any] = torch.compile(
        function, backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=chosen or None
    )
    return result


def run_backward(output: Any) -> bool:
    """Differentiate every tensor of a frame's output that can be, with gradients of ones; False if there is none."""
    torch = features.module("torch")
    tensors = differentiable(output)
    if tensors:
        torch.autograd.backward(tensors, [torch.ones_like(one) for one in tensors])
    return bool(tensors)


def differentiable(output: Any) -> list[Any]:
    """The tensors of a frame's output that require a gradient."""
    torch = features.module("torch")
    leaves = features.require(features.module("torch.utils._pytree"), "tree_leaves")(output)
    return [one for one in leaves if isinstance(one, torch.Tensor) and one.requires_grad]


@contextmanager
def registered(name: str | None, backend: Any) -> Iterator[Any]:
    """A user's backend under the name that the recorded program registered, so that error texts agree."""
    if name is None or name in _registry():
        yield backend
        return
    registry = features.module("torch._dynamo.backends.registry")
    functions = features.require(registry, "_COMPILER_FNS")
    known = features.require(registry, "_BACKENDS")
    functions[name], known[name] = backend, None
    try:
        yield name
    finally:
        del functions[name], known[name]


@contextmanager
def fresh_caches(*, isolated: bool) -> Iterator[None]:
    """No cache of an earlier compilation may answer in place of the compiler.

    `isolated`: this process is ours alone and its environment already names fresh directories.
    """
    reset()
    with ExitStack() as stack:
        if not isolated:
            inductor = features.module("torch._inductor.utils")
            fresh = getattr(inductor, "fresh_cache", None) or features.require(
                inductor, "fresh_inductor_cache"
            )
            directory = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="replay-cache-", ignore_cleanup_errors=True)
            )
            stack.enter_context(fresh(dir=directory))
        try:
            yield
        finally:
            reset()


@contextmanager
def headers_kept_with_caches() -> Iterator[None]:
    """Inductor's precompiled C++ headers lie in the directory of its caches, not in that for temporary files.

    It decides where while it is imported. Where it is not yet, TMPDIR decides, as it is now.
    """
    codecache: Any = sys.modules.get("torch._inductor.codecache")
    with ExitStack() as stack:
        stack.enter_context(patched(tempfile, "tempdir", None))
        if codecache is not None:
            folder = os.path.join(features.require(codecache, "cache_dir")(), "precompiled_headers")
            stack.enter_context(patched(codecache, "_HEADER_DIR", folder))
            stack.enter_context(patched(codecache, "_HEADER_LOCK_DIR", os.path.join(folder, "locks")))
        yield


def reset() -> None:
    """Forget every compiled frame of this process."""
    features.module("torch._dynamo").reset()


def _registry() -> dict[str, Any]:
    registry = features.module("torch._dynamo.backends.registry")
    return dict(features.require(registry, "_COMPILER_FNS"))


def _qualified(function: Any) -> str:
    import functools

    while isinstance(function, functools.partial):
        function = function.func
    owner = function if hasattr(function, "__qualname__") else type(function)
    return f"{owner.__module__}:{owner.__qualname__}"


def _imported(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise UsageError(f"--backend {name!r}: must be a name that torch registers, or module:attribute")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise UsageError(f"--backend {name!r}: cannot import {module_name!r}: {error}") from None
    except AttributeError:
        raise UsageError(
            f"--backend {name!r}: module {module_name!r} has no attribute {attribute!r}"
        ) from None
    except Exception as error:
        raise UsageError(
            f"--backend {name!r}: importing {module_name!r} raised {type(error).__name__}: {error}"
        ) from error
    if not callable(found):
        raise UsageError(f"--backend {name!r}: it is a {type(found).__name__}, not a function")
    result: Callable[..., Any] = found
    return result
