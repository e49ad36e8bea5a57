"""What a process does before it forks replays of one bundle: all that each of them would import."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from replay.bundle import load
from replay.recording import Manifest
from replay.replayer import elsewhere, process
from replay.torch_adapter import devices, features

_BEFORE_A_BACKEND = ("dynamo", "graph_break", "recompile_limit")
"""Stages of failures that come before any backend: most replays of them never import one."""


def preload(request: Mapping[str, Any]) -> None:
    """Import torch as replays of the bundle `request["path"]` would.

    The recording's environment variables stay set: torch reads some of them when it is imported.
    """
    with load(request["path"]) as bundle:
        process.set_recorded(bundle.manifest)
        alone = devices.are_absent()
        if alone:
            elsewhere.prepare(bundle.manifest)
        features.load()
        if alone and _reaches_a_backend(
            bundle.manifest
        ):  # where there is a device, Inductor starts its driver
            with devices.no_driver_asked():
                features.load_inductor()
    import_module("replay.replayer.session")


def may_fork() -> bool:
    """In a forked child: whether torch can be used here. Not where the process that forked had started CUDA."""
    return not devices.started_before_fork()


def _reaches_a_backend(manifest: Manifest) -> bool:
    return manifest.error is None or manifest.error.stage not in _BEFORE_A_BACKEND
