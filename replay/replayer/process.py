"""The process that replays: its environment variables, its caches, its torch. Nothing here knows frames."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from replay import isolation
from replay.errors import UsageError
from replay.recording import Manifest
from replay.torch_adapter import distributed, environment, features, logs

Request = Mapping[str, Any]


@contextmanager
def variables(manifest: Manifest, request: Request) -> Iterator[None]:
    """The environment variables of the replay; torch is not imported yet where the process is ours."""
    before = dict(os.environ)
    private = isolation.private_directory()
    set_recorded(manifest)
    if private is not None:
        os.environ.update(_private_caches(private))
    if request["logs"]:
        os.environ.pop(logs.VARIABLE, None)  # --logs has the last word, when torch is loaded
    for name, value in request["env"].items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def set_recorded(manifest: Manifest) -> None:
    """Set the recording's environment variables in this process; no variable of a launcher stays."""
    for name in [one for one in os.environ if distributed.LAUNCH.match(one)]:
        del os.environ[name]
    os.environ.update(environment.variables_to_set(manifest.environment.variables))


def _private_caches(directory: Path) -> dict[str, str]:
    """Fresh cache directories, so that no earlier compilation answers in place of the compiler."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(directory / "inductor"),
        "TRITON_CACHE_DIR": str(directory / "triton"),
        "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": "0",
        "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE": "0",
    }


def import_torch() -> None:
    """Import torch under the variables that are set; UsageError if it refuses what TORCH_LOGS says."""
    try:
        features.load()
    except ValueError:
        spec = os.environ.get(logs.VARIABLE)
        if spec is None:
            raise
        raise UsageError(
            f"{logs.VARIABLE}={spec}: torch refuses it and cannot be imported; unset it, or see --logs help"
        ) from None


def installed(names: Mapping[str, str]) -> dict[str, str]:
    """Which of these distributions are here, with their versions."""
    from importlib import metadata

    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
