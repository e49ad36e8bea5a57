"""The backends that torch, or a package that is installed, registers by name: which there are, and what each does.

The words are ours, after torch's sources (`torch/_dynamo/backends/`, torch 2.13). Choosing one for a replay is
`compiling.resolve`.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from replay.findings.backends import BackendInfo, Group
from replay.torch_adapter import features

UNCOMPILED = "uncompiled"
"""In place of a backend's name: the function runs as Python runs it, and so does all that it calls."""

ALIASES: Mapping[str, str] = {"torchscript": "ts"}
"""Names of functions in torch's debugging.py that are registered under another name."""

_COMPILERS = {
    "inductor": "torch's own compiler, C++ and Triton (default)",
    "cudagraphs": "graphs as AOTAutograd makes them, as CUDA graphs",
    "onnxrt": "ONNX Runtime",
    "tensorrt": "TensorRT",
    "tvm": "Apache TVM",
    "openxla": "PyTorch/XLA, training too",
    "openxla_eval": "PyTorch/XLA, inference",
}
_DEBUGGING = {
    UNCOMPILED: "no compiler: Python runs the frame (replay's name)",
    "eager": "Dynamo alone; its graphs run op by op",
    "eager_noexcept": "eager; what a graph raises is called Dynamo's",
    "eager_debug": "eager; operators are held to their schemas",
    "pre_dispatch_eager": "graphs traced again, to operators; printed and run",
    "ts": "graphs compiled by TorchScript",
    "invoke_subgraph": "aot_eager; each graph is a call in an outer trace",
    "aot_eager": "Dynamo and AOTAutograd, forward and backward",
    "aot_eager_default_partitioner": "the same, split in two the plain way",
    "aot_eager_decomp_partition": "with Inductor's decompositions and its split",
    "aot_eager_decomp_partition_crossref": "and fake results held to real ones",
    "aot_eager_decomp_partition_with_mode": "and run under a mode",
    "aot_ts": "AOTAutograd, its graphs compiled by TorchScript",
    "dynamo_minifier_backend": "shrinks a failing graph",
    "dynamo_accuracy_minifier_backend": "shrinks a wrong graph",
}
_TESTING = {
    "relu_compile_error_TESTING_ONLY": "cannot compile torch.relu",
    "relu_runtime_error_TESTING_ONLY": "torch.relu raises when it runs",
    "relu_accuracy_error_TESTING_ONLY": "torch.relu(x) gives x + 1",
    "non_leaf_compile_error_TESTING_ONLY": "cannot compile if an input is no leaf",
}
_GROUPS: Mapping[Group, Mapping[str, str]] = {
    "compilers": _COMPILERS,
    "debugging": _DEBUGGING,
    "testing only": _TESTING,
}
_PACKAGES = {"tvm": "tvm", "openxla": "torch_xla", "openxla_eval": "torch_xla"}
"""What torch registers without asking whether it is installed."""


def backends() -> tuple[BackendInfo, ...]:
    """Every backend that a replay can be asked for here: compilers, for debugging, for tests, and others."""
    found = [_describe(name) for name in (UNCOMPILED, *names())]
    order = {name: at for words in _GROUPS.values() for at, name in enumerate(words)}
    groups = [*_GROUPS, "others"]
    return tuple(sorted(found, key=lambda one: (groups.index(one.group), order.get(one.name, 0), one.name)))


def names() -> list[str]:
    """Every backend that torch.compile accepts by name here, also those for debugging."""
    return sorted(features.require(_registry_module(), "list_backends")(None))


def absent_package(name: str) -> str | None:
    """The package that a backend of torch's needs and that is not installed."""
    package = _PACKAGES.get(name)
    return package if package is not None and importlib.util.find_spec(package) is None else None


def wanted_arguments(name: str) -> list[str]:
    """What a registered backend must be given beside the graph and its inputs: no name can say that."""
    function = _registered(name)
    try:
        parameters = list(inspect.signature(function).parameters.values()) if function else []
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters[2:] if one.default is one.empty and one.kind not in kinds]


def _describe(name: str) -> BackendInfo:
    lacks = ""
    package, arguments = absent_package(name), wanted_arguments(name)
    if package is not None:
        lacks = f"{package} is absent"
    elif arguments:
        lacks = f"needs {', '.join(arguments)}"
    for group, words in _GROUPS.items():
        if name in words:
            return BackendInfo(name, group, words[name], lacks)
    return BackendInfo(name, "others", f"registered by {_home(name)}", lacks)


def _home(name: str) -> str:
    """The module that a backend comes from."""
    entry = features.require(_registry_module(), "_BACKENDS").get(name)
    if entry is not None:
        return str(entry.value).partition(":")[0]
    function = _registered(name)
    owner = function if hasattr(function, "__qualname__") else type(function)
    return str(getattr(owner, "__module__", "an unknown module"))


def _registered(name: str) -> Callable[..., Any] | None:
    """The function, where it is loaded; a package's own is not imported for that."""
    found: Callable[..., Any] | None = features.require(_registry_module(), "_COMPILER_FNS").get(name)
    return found


def _registry_module() -> Any:
    return features.module("torch._dynamo.backends.registry")
