"""What is set around a frame while it is compiled: config, global state, the program's own modes. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replay.recorder import describing, history
from replay.torch_adapter import configs, hooks, state, transforms
from replay.torch_adapter.compiling import Backend

_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All of it, of one call."""

    config: Mapping[str, Any]  # plain values that differ from the default, and what is shown of others
    objects: Mapping[str, Any]  # those others
    state: Mapping[str, Any]
    modes: Sequence[Any]  # the program's own torch-function modes


def of(attempt: hooks.Attempt, past: history.Call | None = None) -> Surroundings:
    """As they are now. `past`: a call that is over, whose state was noted then."""
    config, objects = _split_config(attempt, Backend(attempt.converter))
    ambient = state.capture() if past is None else dict(past.state)
    running = transforms.running()
    if running:
        ambient["transforms"] = running
    return Surroundings(config, objects, ambient, state.function_modes())


def _split_config(attempt: hooks.Attempt, backend: Backend) -> tuple[dict[str, Any], dict[str, Any]]:
    """Config values that differ from the default: those that are plain data, and the objects among them.

    An object is also named among the plain ones, for people. What torch.compile(dynamic=...) sets for the time of
    the compilation is no config of the user's.
    """
    found = configs.changed()
    if backend.dynamic is not None:
        found.pop("dynamo.assume_static_by_default", None)
    if backend.dynamic is False:
        found.pop("dynamo.automatic_dynamic_shapes", None)
    limit = hooks.own_limit(attempt)
    if limit is not None:
        found["dynamo.recompile_limit"] = limit
    objects = {key: value for key, value in found.items() if not is_plain(value)}
    return {
        key: describing.short(value) if key in objects else value for key, value in found.items()
    }, objects


def is_plain(value: Any) -> bool:
    """Whether a manifest can hold it as it is."""
    if type(value) is list:
        return all(is_plain(item) for item in value)
    if type(value) is dict:
        return all(type(key) is str and is_plain(item) for key, item in value.items())
    return type(value) in _PLAIN
