"""Frozen data -> values that JSON has, for `--json`. Nothing here is for people."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from replay.profiled import Profile
from replay.recording import Manifest, Outcome
from replay.report.values import values_of


def to_plain(value: Any) -> Any:
    """Dataclasses and mappings as objects, sequences as arrays.

    Bytes become `{"bytes": length, "base64": text}`. A float that JSON lacks becomes "NaN", "Infinity" or
    "-Infinity". Keys that are no strings, and values of other types, become their repr.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _name_float(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        return {"bytes": len(data), "base64": base64.b64encode(data).decode("ascii")}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else repr(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return [to_plain(item) for item in sorted(value, key=repr)]
    return repr(value)


def manifest_json(manifest: Manifest, *, path: str, size: int) -> str:
    """The manifest as one JSON object, with the file's `bundle` (its path) and `size` in bytes first.

    Each storage also has `values`: "real" or "synthetic".
    """
    plain = to_plain(manifest)
    for key, storage in manifest.storages.items():
        plain["storages"][key]["values"] = values_of(storage)
    return _dump({"bundle": path, "size": size, **plain})


def outcome_json(outcome: Outcome) -> str:
    """An outcome as one JSON object: the keys of the contract, and `notes`."""
    return _dump(to_plain(outcome))


def profile_json(profile: Profile) -> str:
    """A profile as one JSON object; times are seconds, `peak` is bytes."""
    return _dump(to_plain(profile))


def _dump(value: Any) -> str:
    # ASCII only: a terminal's control characters come out escaped, and any encoding of stdout will do.
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False)


def _name_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
