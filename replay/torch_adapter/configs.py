"""torch's config modules: what differs from the default, and setting it for a while.

Only values that somebody set (in code, or by an environment variable) are taken, so that a replay under another
torch keeps that torch's own defaults. A value is read on the compiling thread: since 2.13 overrides live in a
ContextVar. Values are Python objects here; `replay.recorder` decides which of them are plain data.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from replay.errors import UsageError
from replay.recording import Drift
from replay.torch_adapter import features

MODULES = {
    "dynamo": "torch._dynamo.config",
    "inductor": "torch._inductor.config",
    "functorch": "torch._functorch.config",
    "fx": "torch.fx.experimental._config",
    "compiler": "torch.compiler.config",
    "export": "torch._export.config",
    "distributed": "torch.distributed.config",
}
"""The word before the dot in a key of ours, and torch's module."""

NOT_APPLIED = frozenset(
    {
        "dynamo.replay_record_enabled",  # torch's own recorder, which fails by itself
        "dynamo.repro_after",  # would start the minifier
        "dynamo.repro_level",
        "dynamo.debug_dir_root",  # a directory of the recording machine
        "inductor.trace.debug_dir",
        "inductor.trace.upload_tar",
        "inductor.trace.enabled",  # writes files; --artifacts is the way to ask for them
        "inductor.kernel_name_max_ops",
        "inductor.compile_threads",  # of the machine, not of the program
    }
)
"""Keys that are recorded and shown, but never set for a replay."""


def changed() -> dict[str, Any]:
    """Every value that was set and differs from its default: {"dynamo.suppress_errors": True}."""
    found = {}
    for word, module in _loaded():
        for name, entry in features.require(module, "_config").items():
            value = _set_value(entry)
            if value is not _UNSET and not _equal(value, entry.default):
                found[f"{word}.{name}"] = value
    return found


def parse(key: str, value: Any) -> tuple[str, Any]:
    """Check one `KEY=VALUE` of a user's. Accepts "dynamo.x" and torch's full module name.

    Raises UsageError for a key that this torch does not have, or a value of another type than its default.
    """
    module, name = _resolve(key)
    default = features.require(module, "_config")[name].default
    if isinstance(default, tuple) and isinstance(value, list):
        value = tuple(value)
    if isinstance(default, bool) and isinstance(value, int) and value in (0, 1):
        value = bool(value)
    if default is not None and isinstance(default, (bool, int, float, str)):
        wanted = (int, float) if isinstance(default, float) else type(default)
        if value is not None and (
            not isinstance(value, wanted) or isinstance(value, bool) != isinstance(default, bool)
        ):
            raise UsageError(
                f"--config {key}={value!r}: the value must be {type(default).__name__}, such as {default!r}"
            )
    word = next(w for w, m in MODULES.items() if m == module.__name__)
    return f"{word}.{name}", value


def default(key: str) -> Any:
    """A key's value in this process where nobody sets it. UsageError for a key that this torch does not have."""
    module, name = _resolve(key)
    return features.require(module, "_config")[name].default


@contextmanager
def applied(recorded: Mapping[str, Any], chosen: Mapping[str, Any]) -> Iterator[list[Drift]]:
    """Set the recorded values and, over them, the chosen ones; put everything back at the end.

    What was set here but not in the recording goes back to its default meanwhile. Yields what could not be set:
    keys that this torch does not have, or that are never set.
    """
    drift: list[Drift] = []
    wanted: dict[str, dict[str, Any]] = {}
    for key, value in _defaults_for(recorded).items():
        _put(wanted, key, value, drift)
    for key, value in recorded.items():
        if key in NOT_APPLIED:
            drift.append(Drift(f"config.{key}", repr(value), "not set for a replay"))
        else:
            _put(wanted, key, value, drift)
    for key, value in chosen.items():
        _put(wanted, key, value, drift)
    with ExitStack() as stack:
        for module_name, values in wanted.items():
            stack.enter_context(features.module(module_name).patch(values))
        yield drift


def _put(wanted: dict[str, dict[str, Any]], key: str, value: Any, drift: list[Drift]) -> None:
    try:
        module, name = _resolve(key)
    except UsageError:
        drift.append(Drift(f"config.{key}", repr(value), "unknown to this torch"))
        return
    wanted.setdefault(module.__name__, {})[name] = value


def _defaults_for(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults of what is set on this machine but was not in the recording."""
    return {
        key: features.require(_resolve(key)[0], "_config")[_resolve(key)[1]].default
        for key in changed()
        if key not in recorded and key not in NOT_APPLIED
    }


def _resolve(key: str) -> tuple[ModuleType, str]:
    for word, module_name in MODULES.items():
        for prefix in (word + ".", module_name + ".", module_name.removesuffix(".config") + "."):
            if key.startswith(prefix):
                module = features.module(module_name)
                name = key.removeprefix(prefix)
                if name in features.require(module, "_config"):
                    return module, name
    raise UsageError(f"config key {key!r}: unknown to this torch; keys look like dynamo.suppress_errors")


def _loaded() -> Iterator[tuple[str, ModuleType]]:
    for word, name in MODULES.items():
        module = sys.modules.get(name)
        if module is not None:
            yield word, module


class _Unset:
    pass


_UNSET = _Unset()


def _set_value(entry: Any) -> Any:
    """The value that somebody set, or _UNSET; never a getattr on the module, which warns on deprecated keys."""
    sentinel = features.require(features.module("torch.utils._config_module"), "_UNSET_SENTINEL")
    if getattr(entry, "alias", None) is not None:
        return _UNSET  # recorded under its real name
    override = features.require(entry, "user_override")
    if isinstance(override, ContextVar):
        override = override.get()
    for value in (entry.env_value_force, override, entry.env_value_default):
        if value is not sentinel:
            return value
    return _UNSET


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one is other or one == other)
    except Exception:  # noqa: BLE001 - a value whose comparison raises was surely set by somebody
        return False
