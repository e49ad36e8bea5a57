"""The instrument "settings": which settings of the recording act in a replay here, and what would be in their place.

A setting is listed if its recorded value differs from the default of this torch, or from what this process began
with. One that the request chooses otherwise is not the recording's any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import msgpack

from replay.errors import UsageError
from replay.findings.ablation import Setting
from replay.replayer import settings
from replay.replayer.instruments import Instrument
from replay.replayer.preparation import Prepared
from replay.replayer.seen import Seen
from replay.replayer.task import Task
from replay.torch_adapter import configs, environment, state


class Listing(Instrument):
    """Lists the settings of one replay."""

    def before(self, task: Task) -> None:
        """Note what the process begins with."""
        self._fresh = state.capture()

    @contextmanager
    def around(self, prepared: Prepared, seen: Seen) -> Iterator[None]:
        """Note what was prepared."""
        self._prepared = prepared
        yield

    def found(self, outcome: Any) -> list[dict[str, Any]]:
        """The settings, each as a mapping of its fields."""
        task = self._prepared.task
        chosen = _chosen(task.request) | set(task.request["without"])
        listed = (
            *_config(task, self._prepared.root["config"]),
            *_compile(task, self._prepared.root["options"]),
            *_state(task, self._fresh),
            *_modes(self._prepared.root["function_modes"]),
            *_variables(task),
            *_rest(task),
        )
        return [asdict(one) for one in listed if one.name not in chosen]


def _chosen(request: Mapping[str, Any]) -> set[str]:
    """Names of what the request says in place of the recording."""
    keys = {configs.parse(key, value)[0] for key, value in request["config"].items()}
    found = {f"config.{key}" for key in (*keys, *request["limits"])} | {
        f"env.{name}" for name in request["env"]
    }
    for option, name in (
        ("dynamic", settings.DYNAMIC),
        ("fullgraph", settings.FULLGRAPH),
        ("backward", settings.BACKWARD),
    ):
        if request[option] is not None:
            found.add(name)
    return found


def _config(task: Task, objects: Mapping[str, Any]) -> Iterator[Setting]:
    for key, value in task.manifest.config.items():
        if key in configs.NOT_APPLIED:
            continue
        try:
            default = configs.default(key)
        except UsageError:
            continue  # unknown to this torch: drift, and not set
        if key in objects or value != default:
            yield Setting(f"config.{key}", value, _plain(default), exact=key not in objects)


def _compile(task: Task, options: Mapping[str, Any]) -> Iterator[Setting]:
    how = task.manifest.compile
    if how.entry != "compile" and task.as_recorded:
        return  # another way into the compiler has arguments of its own
    if how.dynamic is not None:
        yield Setting(settings.DYNAMIC, how.dynamic, None)
    if how.fullgraph:
        yield Setting(settings.FULLGRAPH, True, False)
    if task.request["mode"] is None and task.backend == how.backend:
        for key, value in how.options.items():
            given = options.get(key)
            exact = type(given) is type(value) and bool(given == value)
            yield Setting(f"compile.options.{key}", value, _option(key, how.backend), exact=exact)


def _option(key: str, backend: str) -> Any:
    if backend != "inductor":
        return None
    try:
        return _plain(configs.default(f"inductor.{key}"))
    except UsageError:
        return None


def _state(task: Task, fresh: Mapping[str, Any]) -> Iterator[Setting]:
    manifest = task.manifest
    for name in settings.names(manifest):
        room, _, key = name.partition(".")
        if room != "state" or name == settings.MODES or not settings.acts(name, manifest):
            continue
        group, _, switch = key.partition(".")
        value, here = manifest.state[group], fresh.get(group)
        if switch:
            value, here = value[switch], (here or {}).get(switch)
        if value != here:
            yield Setting(name, value, here)


def _modes(modes: list[Any]) -> Iterator[Setting]:
    if modes:
        kinds = [f"{type(one).__module__}.{type(one).__qualname__}" for one in modes]
        yield Setting(settings.MODES, kinds, [])


def _variables(task: Task) -> Iterator[Setting]:
    for name, value in environment.variables_to_set(task.manifest.environment.variables).items():
        yield Setting(f"env.{name}", value, None)


def _rest(task: Task) -> Iterator[Setting]:
    known = settings.names(task.manifest)
    if settings.CALLS in known:
        yield Setting(settings.CALLS, len(task.manifest.calls), 0)
    if settings.BACKWARD in known:
        yield Setting(settings.BACKWARD, True, False)


def _plain(value: Any) -> Any:
    """The value as MessagePack has it; of another one, how Python writes it."""
    try:
        return msgpack.unpackb(msgpack.packb(value))
    except (TypeError, ValueError, OverflowError):
        return repr(value)
