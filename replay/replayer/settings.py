"""The settings of a recording by name, and a replay without some of them. Values alone: nothing here uses torch.

config.KEY            a config value that differed from its default
compile.dynamic       torch.compile's own arguments
compile.fullgraph
compile.options.KEY   of the backend, with the mode expanded
state.NAME            global state, as `torch_adapter.state` names it; state.cudnn.NAME and state.sdp.NAME
state.function_modes  the program's own torch-function modes
env.NAME              an environment variable
calls                 the earlier calls, and what they taught Dynamo of dynamic shapes
backward              running the backward

A replay without a setting has what a fresh process has in its place.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from replay.errors import UsageError
from replay.recording import CompileInfo, Manifest
from replay.torch_adapter import environment, stances
from replay.torch_adapter.state import ORDINARY

CALLS, BACKWARD = "calls", "backward"
DYNAMIC, FULLGRAPH = "compile.dynamic", "compile.fullgraph"
MODES = "state.function_modes"

GROUPS = ("cudnn", "sdp")
"""State that is recorded as a mapping of switches, each of them a setting."""

_NO_SETTINGS = frozenset({"generators", "transforms", "interop_threads", "cuda_device"})
"""State that a replay cannot do without, or does not set."""

_TAUGHT = "eager_then_compile"
"""The stance under which earlier calls run uncompiled, and teach Dynamo which shapes are dynamic."""


def names(manifest: Manifest) -> tuple[str, ...]:
    """Every setting that a replay can do without, also those that are as in a fresh process."""
    return tuple(_names(manifest))


def _names(manifest: Manifest) -> Iterator[str]:
    yield from (f"config.{key}" for key in manifest.config)
    if manifest.compile.dynamic is not None:
        yield DYNAMIC
    if manifest.compile.fullgraph:
        yield FULLGRAPH
    yield from (f"compile.options.{key}" for key in manifest.compile.options)
    for name, value in manifest.state.items():
        if name in GROUPS:
            yield from (f"state.{name}.{switch}" for switch in value)
        elif name not in _NO_SETTINGS:
            yield f"state.{name}"
    yield MODES
    yield from (f"env.{name}" for name in environment.variables_to_set(manifest.environment.variables))
    if manifest.calls or manifest.state.get("stance") == _TAUGHT:
        yield CALLS
    if manifest.compile.backward:
        yield BACKWARD


def check(manifest: Manifest, without: Sequence[str]) -> tuple[str, ...]:
    """The names, each once. UsageError for one that is no setting of the recording."""
    known = names(manifest)
    for name in without:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else "see the settings in --ablate or inspect"
            raise UsageError(f"--without {name}: no such setting in this recording; {hint}")
    return tuple(dict.fromkeys(without))


def variables(without: Collection[str]) -> dict[str, None]:
    """The environment variables among the names, as `run(env=...)` takes those that are not to be set."""
    return {name.removeprefix("env."): None for name in without if name.startswith("env.")}


def reduced(manifest: Manifest, without: Collection[str]) -> Manifest:
    """What the manifest would say if the recording had been made without these settings.

    Environment variables stay in it: see `variables`.
    """
    if not without:
        return manifest
    return replace(
        manifest,
        config={key: value for key, value in manifest.config.items() if f"config.{key}" not in without},
        compile=_reduced_compile(manifest.compile, without),
        state=_reduced_state(manifest.state, without),
        calls=() if CALLS in without else manifest.calls,
        sequence=None if CALLS in without else manifest.sequence,
    )


def _reduced_compile(how: CompileInfo, without: Collection[str]) -> CompileInfo:
    return replace(
        how,
        dynamic=None if DYNAMIC in without else how.dynamic,
        fullgraph=how.fullgraph and FULLGRAPH not in without,
        options=_reduced_options(how.options, without),
        backward=how.backward and BACKWARD not in without,
    )


def _reduced_state(state: Mapping[str, Any], without: Collection[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in state.items():
        if name in GROUPS:
            found[name] = {key: on for key, on in value.items() if f"state.{name}.{key}" not in without}
        elif f"state.{name}" not in without:
            found[name] = value
        elif name in ORDINARY:
            found[name] = ORDINARY[name]
    return found


def _reduced_options(options: Mapping[str, Any], without: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if f"compile.options.{key}" not in without}


def reduced_values(root: Mapping[str, Any], without: Collection[str]) -> dict[str, Any]:
    """The same for the values' root: objects among config values and options, function modes, earlier calls."""
    found = dict(root)
    if without:
        found["config"] = {key: one for key, one in root["config"].items() if f"config.{key}" not in without}
        found["options"] = _reduced_options(root["options"], without)
    if MODES in without:
        found["function_modes"] = []
    if CALLS in without:
        found["calls"], found["dynamism"] = [], None
    return found


def acts(name: str, manifest: Manifest) -> bool:
    """Whether a replay sets it at all: of the stances, only the one that refuses to compile."""
    return name != "state.stance" or manifest.state.get("stance") == stances.REFUSES
