"""Settings of a recording as lines of Python: what a program does to have just these. Shown, never run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replay.findings.ablation import Setting
from replay.recording import Outcome
from replay.torch_adapter.configs import MODULES

_CALLS: Mapping[str, str] = {
    "autocast_cache": "torch.set_autocast_cache_enabled({!r})",
    "default_dtype": "torch.set_default_dtype(torch.{})",
    "default_device": "torch.set_default_device({!r})",
    "deterministic": "torch.use_deterministic_algorithms({!r})",
    "deterministic_warn_only": "torch.use_deterministic_algorithms(True, warn_only={!r})",
    "fill_uninitialized_memory": "torch.utils.deterministic.fill_uninitialized_memory = {!r}",
    "matmul_precision": "torch.set_float32_matmul_precision({!r})",
    "anomaly": "torch.autograd.set_detect_anomaly({!r})",
    "threads": "torch.set_num_threads({!r})",
    "stance": "torch.compiler.set_stance({!r})",
}
_CONTEXTS: Mapping[str, str] = {
    "grad_enabled": "torch.set_grad_enabled({!r})",
    "inference_mode": "torch.inference_mode({!r})",
}


def python_lines(needed: Sequence[Setting], outcome: Outcome) -> list[str]:
    """The program that has the settings, up to the call of the compiled function, whose inputs are the bundle's."""
    contexts = [text for one in needed for text in _contexts(one)]
    inside = "    " if contexts else ""
    lines = ["import torch", "", *(line for one in needed for line in _statements(one))]
    if contexts:
        lines.append(f"with {', '.join(contexts)}:")
    if any(one.name == "calls" for one in needed):
        lines.append(f"{inside}# after the earlier calls")
    lines.append(inside + _compile(needed, outcome))
    if any(one.name == "backward" for one in needed):
        lines.append(f"{inside}# and the backward of what it returns")
    return lines


def variables(needed: Sequence[Setting]) -> list[str]:
    """NAME=VALUE for each environment variable; they count only if they are set before torch is imported."""
    return [
        f"{one.name.removeprefix('env.')}={one.recorded}" for one in needed if one.name.startswith("env.")
    ]


def _statements(one: Setting) -> Iterator[str]:
    room, _, name = one.name.partition(".")
    if room == "config":
        word, _, key = name.partition(".")
        target = f"{MODULES.get(word, word)}.{key}"
        yield f"{target} = {one.recorded!r}" if one.exact else f"# {target}: {one.recorded}"
    elif room == "state" and name in _CALLS:
        yield _CALLS[name].format(one.recorded)
    elif room == "state" and name.startswith("cudnn."):
        yield f"torch.backends.{name} = {one.recorded!r}"
    elif room == "state" and name.startswith("sdp."):
        yield f"torch.backends.cuda.enable_{name.removeprefix('sdp.')}_sdp({one.recorded!r})"
    elif one.name == "state.function_modes":
        yield f"# inside the program's own function modes: {', '.join(one.recorded)}"


def _contexts(one: Setting) -> Iterator[str]:
    room, _, name = one.name.partition(".")
    if room == "state" and name in _CONTEXTS:
        yield _CONTEXTS[name].format(one.recorded)
    elif one.name == "state.autocast":
        for device, setting in one.recorded.items():
            yield f"torch.autocast({device!r}, dtype=torch.{setting['dtype']})"


def _compile(needed: Sequence[Setting], outcome: Outcome) -> str:
    arguments: dict[str, Any] = {"backend": outcome.backend}
    options: dict[str, Any] = {}
    for one in needed:
        room, _, name = one.name.partition(".")
        if room == "compile" and name in ("dynamic", "fullgraph"):
            arguments[name] = one.recorded
        elif room == "compile":
            key = name.removeprefix("options.")
            options[key] = one.recorded
    if "mode" in options:
        arguments["mode"] = options.pop("mode")
    if options:
        arguments["options"] = options
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"torch.compile({outcome.function.rpartition('.')[2]}, {given})(...)"
