"""Config and global state of a recording as statements and contexts, and the recordings that no file can stand for."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replay.exporting import expressions
from replay.exporting.expressions import assigned, flat, literal
from replay.exporting.transcript import RefusedError, Transcript
from replay.recording import Manifest
from replay.torch_adapter import configs, environment, stances

if TYPE_CHECKING:
    from replay.exporting.values import Values

REFUSED_ENTRIES = {
    "compiled_autograd": "the frame is a backward graph that compiled autograd captured: code of torch's own",
    "dynamo_export": "it came to the compiler by torch._dynamo.export, whose callers are tools",
    "aot_compile": "it came to the compiler by aot_compile, which torch offers under a config of its own",
}
IN_CONTEXTS = frozenset({"grad_enabled", "inference_mode", "autocast", "autocast_cache", "anomaly", "stance"})
"""Global state that a context manager sets: an earlier call may have had other."""
_CUDNN = {"enabled": True, "benchmark": False, "deterministic": False, "allow_tf32": True}


def check(manifest: Manifest, root: Mapping[str, Any]) -> None:
    """Raises RefusedError for a recording that no file without `replay` can stand for."""
    if manifest.compile.entry in REFUSED_ENTRIES:
        raise RefusedError(manifest.compile.entry, REFUSED_ENTRIES[manifest.compile.entry])
    if manifest.state.get("transforms"):
        raise RefusedError("function transforms", "the frame was compiled inside torch.func transforms")
    if root["function_modes"]:
        raise RefusedError("torch-function modes", "the frame was compiled under modes of the program's own")
    if root.get("dynamism"):
        raise RefusedError("dynamic shapes", "calls that ran uncompiled taught Dynamo about them")
    groups = manifest.process.get("groups", ())
    if len(groups) > 1:
        raise RefusedError("process groups", f"the program had {len(groups)} of torch.distributed")


def variables(manifest: Manifest) -> dict[str, str]:
    """The environment variables that the file sets before it imports torch."""
    return dict(environment.variables_to_set(manifest.environment.variables))


def of(transcript: Transcript, values: Values, manifest: Manifest, root: Mapping[str, Any]) -> list[str]:
    """Statements that come before the calls."""
    return [*_group(transcript, manifest), *_config(transcript, values, manifest, root), *_state(manifest)]


def contexts(state: Mapping[str, Any]) -> tuple[str, ...]:
    """What calls under this global state stand in."""
    return tuple(flat(one) for one in _contexts(state))


def _group(transcript: Transcript, manifest: Manifest) -> list[str]:
    """torch.distributed with a group that stands for the others: nothing is sent."""
    size = manifest.process.get("world_size")
    if not size:
        return []
    transcript.need("torch.distributed")
    transcript.take("FakeStore", "torch's store for a group that sends nothing")
    transcript.imports["FakeStore"] = "from torch.testing._internal.distributed.fake_pg import FakeStore"
    named = {
        "rank": literal(manifest.process.get("rank", 0)),
        "world_size": literal(size),
        "store": expressions.call("FakeStore"),
    }
    return [flat(expressions.call("torch.distributed.init_process_group", [literal("fake")], named))]


def _config(transcript: Transcript, values: Values, manifest: Manifest, root: Mapping[str, Any]) -> list[str]:
    found = []
    for key, value in {**manifest.config, **root["config"]}.items():
        if key in configs.NOT_APPLIED:
            continue
        word, _, name = key.partition(".")
        module = configs.MODULES[word]
        transcript.need(module)
        found.append(assigned(f"{module}.{name}", values.write(value, f"config {key}")))
    return found


def _state(manifest: Manifest) -> list[str]:
    """Global state that has a setter, where it is other than in a fresh process."""
    state, found = manifest.state, []
    if state.get("default_dtype", "float32") != "float32":
        found.append(f"torch.set_default_dtype(torch.{state['default_dtype']})")
    if state.get("default_device") is not None:
        found.append(flat(expressions.call("torch.set_default_device", [literal(state["default_device"])])))
    if state.get("deterministic"):
        warn = {"warn_only": literal(True)} if state.get("deterministic_warn_only") else {}
        found.append(flat(expressions.call("torch.use_deterministic_algorithms", [literal(True)], warn)))
    if not state.get("fill_uninitialized_memory", True):
        found.append("torch.utils.deterministic.fill_uninitialized_memory = False")
    if state.get("matmul_precision", "highest") != "highest":
        chosen = [literal(state["matmul_precision"])]
        found.append(flat(expressions.call("torch.set_float32_matmul_precision", chosen)))
    if manifest.environment.gpus:
        found += [
            assigned(f"torch.backends.cudnn.{name}", literal(value))
            for name, value in state.get("cudnn", {}).items()
            if value != _CUDNN.get(name)
        ]
        found += [
            f"torch.backends.cuda.enable_{name}_sdp(False)"
            for name, value in state.get("sdp", {}).items()
            if not value
        ]
    return found


def _contexts(state: Mapping[str, Any]) -> list[ast.expr]:
    found = []
    if state.get("inference_mode"):
        found.append(expressions.call("torch.inference_mode"))
    elif not state.get("grad_enabled", True):
        found.append(expressions.call("torch.no_grad"))
    for device, setting in state.get("autocast", {}).items():
        named = {"dtype": expressions.dotted(f"torch.{setting['dtype']}")}
        if not state.get("autocast_cache", True):
            named["cache_enabled"] = literal(False)
        found.append(expressions.call("torch.autocast", [literal(device)], named))
    if state.get("anomaly"):
        found.append(expressions.call("torch.autograd.set_detect_anomaly", [literal(True)]))
    if state.get("stance") == stances.REFUSES:
        found.append(expressions.call("torch.compiler.set_stance", [literal(stances.REFUSES)]))
    return found
