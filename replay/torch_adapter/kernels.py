"""User Triton kernels on a machine without a GPU: Dynamo takes them for kernels, and Triton's interpreter runs them.

Nothing here imports triton unless it is installed. Kernels as data live in `replay.shipping.triton_objects`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from replay.torch_adapter import features
from replay.torch_adapter.patching import patched

_INTERPRET = "TRITON_INTERPRET"


def prepare_interpreter() -> None:
    """Import triton so that its own functions (`tl.sum`, `tl.zeros`) can be interpreted; before Dynamo imports it.

    The variable is set for the import alone: the user's kernels must be what Dynamo takes for kernels. Where triton is
    imported already, its functions are exchanged while a kernel runs, but not where they are methods (`x.sum()`).
    """
    if "triton" in sys.modules or importlib.util.find_spec("triton") is None:
        return
    with _interpreting():
        importlib.import_module("triton.language")


@contextmanager
def _interpreting() -> Iterator[None]:
    before = os.environ.get(_INTERPRET)
    os.environ[_INTERPRET] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_INTERPRET]
        else:
            os.environ[_INTERPRET] = before


@contextmanager
def known_to_dynamo() -> Iterator[None]:
    """Dynamo takes a kernel for one only where `has_triton()`, which asks for a GPU; here it asks for the package.

    Inductor hears the truth: it would ask Triton's driver next.
    """
    module = features.module("torch.utils._triton")
    truth = features.require(module, "has_triton")
    has_package = features.require(module, "has_triton_package")

    def has_triton(*arguments: Any, **keywords: Any) -> bool:
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        return bool(truth(*arguments, **keywords) if caller.startswith("torch._inductor") else has_package())

    with patched(module, "has_triton", has_triton):
        yield


@contextmanager
def interpreted() -> Iterator[None]:
    """A launched kernel runs in Triton's interpreter, on CPU tensors; an autotuned one with its first config."""
    if importlib.util.find_spec("triton") is None:
        yield
        return
    jit = importlib.import_module("triton.runtime.jit")
    autotuner = importlib.import_module("triton.runtime.autotuner")
    with ExitStack() as stack:
        stack.enter_context(patched(jit.JITFunction, "run", _interpret))
        stack.enter_context(patched(autotuner.Autotuner, "run", _run_first))
        yield


def _interpret(kernel: Any, *arguments: Any, grid: Any, warmup: bool = False, **keywords: Any) -> Any:
    with _functions_interpreted(kernel.fn), _interpreting():
        return _interpretable(kernel).run(*arguments, grid=grid, warmup=warmup, **keywords)


def _interpretable(kernel: Any) -> Any:
    return importlib.import_module("triton.runtime.interpreter").InterpretedFunction(kernel.fn)


@contextmanager
def _functions_interpreted(function: Any) -> Iterator[None]:
    """Device functions that the kernel calls are kernels too, in its globals and in theirs."""
    kind = importlib.import_module("triton.runtime.jit").JITFunction
    changed: list[tuple[dict[str, Any], str, Any]] = []
    seen: set[int] = set()
    waiting = [function.__globals__, *_languages()]
    while waiting:
        namespace = waiting.pop()
        if id(namespace) in seen:
            continue
        seen.add(id(namespace))
        for name, value in list(namespace.items()):
            if isinstance(value, kind):
                changed.append((namespace, name, value))
                namespace[name] = _interpretable(value)
                waiting.append(value.fn.__globals__)
    try:
        yield
    finally:
        for namespace, name, value in changed:
            namespace[name] = value


def _languages() -> list[dict[str, Any]]:
    """Triton's own modules: their functions are kernels too, where they were imported for a compiler."""
    return [vars(module) for name, module in list(sys.modules.items()) if name.startswith("triton.language")]


def _run_first(tuner: Any, *arguments: Any, **keywords: Any) -> Any:
    """Any config computes the same; none can be timed here."""
    tuner.nargs = dict(zip(tuner.arg_names, arguments, strict=False))
    return tuner.fn.run(*arguments, **{**keywords, **tuner.configs[0].all_kwargs()})
