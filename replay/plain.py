"""Frozen data -> values that JSON has, and their text; and back. Nothing here is for people, or knows which data."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import threading
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_learning = threading.Lock()
"""msgspec learns a type when it is first asked for. Two threads at once in that ended a process (msgspec 0.22)."""


def from_plain(value: Any, kind: type[T], *, strict: bool = True) -> T:
    """Frozen data from what came out of MessagePack or another process. Raises msgspec.ValidationError."""
    with _learning:
        return msgspec.convert(value, kind, strict=strict)


def from_bytes(data: bytes, kind: type[T]) -> T:
    """The same from MessagePack itself. Raises msgspec.MsgspecError."""
    with _learning:
        return msgspec.msgpack.decode(data, type=kind)


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


def to_json(value: Any) -> str:
    """The text of a plain value."""
    # ASCII only: a terminal's control characters come out escaped, and any encoding of stdout will do.
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False)


def _name_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
