"""What kind of thing differs, told from the guard that fails and from the types of the values. Pure; knows no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping

from replay.findings.recompiles import Cause

_ASPECTS: Mapping[str, Cause] = {
    "class": "type",
    "dtype": "dtype",
    "device": "device",
    "requires_grad": "requires_grad",
    "rank": "rank",
    "size": "size",
    "stride": "stride",
    "inference": "other",
    "keys": "other",
    "grad_mode": "grad_mode",
}
_LENGTHS = (
    "LENGTH_CHECK",
    "DICT_LENGTH",
    "DICT_CONTAINS",
    "SET_CONTAINS",
    "MAPPING_KEYS_MATCH",
    "TUPLE_ITERATOR_LEN",
    "RANGE_ITERATOR_MATCH",
)
_STATES = ("DISPATCH_KEYS", "GLOBAL_STATE", "DEFAULT_DEVICE", "TORCH_FUNCTION_MODE_STACK", "DUAL_LEVEL_MATCH")
_TYPES = ("TYPE_MATCH", "NONE_MATCH", "NOT_NONE")
_VALUES: Mapping[str, Cause] = {
    "int": "integer",
    "float": "float",
    "bool": "boolean",
    "str": "string",
    "dtype": "dtype",
    "device": "device",
    "set": "length",
    "frozenset": "length",
    "dict": "length",
    "list": "length",
    "tuple": "length",
}
_FUNCTIONS = ("function", "method", "builtin_function_or_method", "code", "cell", "lambda", "partial")

_OF_FUNCTION = re.compile(r"\.__(?:code|closure|defaults|kwdefaults)__\b")
_ATTRIBUTE = re.compile(
    r"(?:\.[A-Za-z_]\w*|\.__dict__\['[^']*'\]|\._(?:modules|parameters|buffers)\['[^']*'\])$"
)
_OF_MODULE = re.compile(r"^G\['__import_[^']*'\]\.\w+$")
"""A global of a Python module that the frame's code was inlined from."""


def classify(kind: str, aspect: str, source: str, was: str, now: str) -> Cause:
    """The cause behind one failing guard.

    `kind` is torch's name for it, `aspect` what of a tensor or of the process differs, `was` and `now` are the names of
    the types of the value that was compiled for and of the one that came; empty where they are not known.
    """
    if aspect in _ASPECTS:
        return _ASPECTS[aspect]
    if kind in _STATES or source == "":
        return "global_state" if kind != "OTHER" else "other"
    if now == "absent":
        return _of_absent(source)
    if kind in _LENGTHS:
        return "length"
    if ".size()[" in source:
        return "size"
    if ".stride()[" in source:
        return "stride"
    if kind in _TYPES or (was and now and was != now):
        return "type"
    if _OF_FUNCTION.search(source):
        return "function"
    if kind == "NO_HASATTR" or (_ATTRIBUTE.search(source) and not _OF_MODULE.match(source)):
        return "attribute"
    return _of_value(kind, was, now)


def _of_absent(source: str) -> Cause:
    if _OF_FUNCTION.search(source):
        return "function"
    return "attribute" if _ATTRIBUTE.search(source) or not source.endswith("]") else "length"


def _of_value(kind: str, was: str, now: str) -> Cause:
    if now in _FUNCTIONS or was in _FUNCTIONS:
        return "function"
    if kind in ("TRUE_MATCH", "FALSE_MATCH"):
        return "boolean"
    if kind in ("ID_MATCH", "WEAKREF_ALIVE", "OBJECT_ALIASING", "NO_TENSOR_ALIASING"):
        return _VALUES.get(now, "identity")
    return _VALUES.get(now, "other")
