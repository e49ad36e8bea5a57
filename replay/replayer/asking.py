"""From the options of a replay to the request that the session is asked: checked, without torch, and plain.

Nothing is started here; see `replay.replayer.launch`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from replay.errors import UsageError
from replay.recording import Manifest
from replay.replayer import settings
from replay.selection import Pattern, Selection

_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")

_SILENT: Mapping[str, Any] = {
    "backend": None,
    "dynamic": None,
    "fullgraph": None,
    "backward": None,
    "mode": None,
    "device": None,
    "fake": False,
    "compare": False,
    "tolerance": None,
    "logs": None,
    "pdb": False,
}
"""What a request says of an option that nobody gave."""


def build(
    path: Path,
    manifest: Manifest,
    instruments: Mapping[str, Mapping[str, Any]],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """What the session is asked. TypeError for an unknown option, UsageError for a value that makes no sense."""
    asked = dict(options)
    without = settings.check(manifest, asked.pop("without", ()))
    limits = _limits(asked.pop("recompile_limit", None), asked.pop("accumulated_recompile_limit", None))
    request = {
        "path": str(path.resolve()),
        "function": _patterns(asked.pop("function", ())),
        "limits": limits,
        "config": dict(asked.pop("config", None) or {}),
        "env": {**settings.variables(without), **_variables(asked.pop("env", None) or {})},
        "without": without,
        "instruments": {name: dict(given) for name, given in instruments.items()},
        **_SILENT,
    }
    unknown = [name for name in asked if name not in _SILENT]
    if unknown:
        raise TypeError(f"no option of a replay: {', '.join(unknown)}")
    return {**request, **asked}


def settle_comparison(request: dict[str, Any], manifest: Manifest) -> None:
    """Add the instrument that compares, and the config that it needs; UsageError for what makes no sense."""
    tolerance, compare = request["tolerance"], request["compare"]
    if tolerance is not None:
        _check_tolerance(tolerance)
        if not compare and manifest.difference is None:
            raise UsageError(
                f"--tolerance {tolerance:g}: nothing is compared; add --compare (the recording is not of wrong numbers)"
            )
    if not compare:
        return
    if request["fake"]:
        raise UsageError("--compare needs values, and --fake has none; leave one of them out")
    request["instruments"]["compare"] = {"tolerance": tolerance}
    if not {"inductor.fallback_random", "torch._inductor.config.fallback_random"} & request["config"].keys():
        request["config"]["inductor.fallback_random"] = True


def _check_tolerance(tolerance: Any) -> None:
    number = isinstance(tolerance, (int, float)) and not isinstance(tolerance, bool)
    if not number or not (math.isfinite(tolerance) and tolerance >= 0):
        raise UsageError(f"--tolerance {tolerance!r}: must be a number of at least 0, such as 1e-3")


def to_send(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request as it goes to a child process. UsageError for a config value that cannot be sent."""
    _check_plain(request["config"])
    return {**request, "function": [_plain_pattern(one) for one in request["function"]]}


def _check_plain(config: Mapping[str, Any]) -> None:
    for key, value in config.items():
        try:
            msgspec.msgpack.encode(value)
        except (TypeError, ValueError, OverflowError):
            raise UsageError(
                f"--config {key}: a {type(value).__qualname__} cannot be sent to a child process; use isolate=False"
            ) from None


def _patterns(function: Pattern | Sequence[Pattern]) -> tuple[Pattern, ...]:
    return Selection.of(function).patterns


def _plain_pattern(pattern: Pattern) -> Any:
    return pattern if isinstance(pattern, str) else {"regex": pattern.pattern, "flags": pattern.flags}


def _limits(recompile: int | None, accumulated: int | None) -> dict[str, int]:
    limits = {}
    for name, value in (("recompile_limit", recompile), ("accumulated_recompile_limit", accumulated)):
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(f"--{name.replace('_', '-')} {value!r}: must be a whole number of at least 1")
        limits[f"dynamo.{name}"] = value
    return limits


def _variables(env: Mapping[str, str | None]) -> dict[str, str | None]:
    for name, value in env.items():
        if not _VARIABLE.match(name) or not (value is None or isinstance(value, str)):
            raise UsageError(
                f"--env {name}={value!r}: must be NAME=VALUE, such as TORCHINDUCTOR_MAX_AUTOTUNE=1"
            )
    return dict(env)
