"""The guards of a compiled frame as plain data: what must hold for its code to be used again.

They are read from the tree that Dynamo checks on each call. The user's lines come from the guards that Dynamo noted
while it traced, and, of shapes, from the comments that torch puts behind its conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from replay.findings.explanation import GuardInfo
from replay.recording import UserFrame
from replay.torch_adapter import failures, features
from replay.torch_adapter.dissection import users

_PLACE = re.compile(r"# (?P<code>.*?)  # (?P<file>\S+):(?P<line>\d+) in (?P<function>[\w<>]+)")
"""How torch ends a condition. It keeps only the end of the file's name."""


def describe_guards(manager: Any, noted: Iterable[Any], files: Iterable[str]) -> list[GuardInfo]:
    """Each condition once, in the order of the check.

    `manager`: Dynamo's, of the frame. `noted`: the guards that tracing asked for. `files`: that were traced into.
    """
    lines = places(noted)
    found: dict[tuple[str, tuple[str, ...]], GuardInfo] = {}
    root = features.require(manager, "root")
    for source, leaf in _leaves(root, at_root=True):
        parts = [str(one) for one in features.require(leaf, "verbose_code_parts")()]
        kind, code = type(leaf).__name__, tuple(one.partition("  #")[0].rstrip() for one in parts)
        place = lines.get(source) or told(parts, files)
        found.setdefault((kind, code), GuardInfo(source, kind, code, place))
    return list(found.values())


def _leaves(manager: Any, *, at_root: bool = False) -> Iterator[tuple[str, Any]]:
    """Each leaf with the expression that it looks at; none of those about the process or several values."""
    source = "" if at_root else str(features.require(manager, "get_source")())
    for leaf in features.require(manager, "get_leaf_guards")():
        yield source, leaf
    if hasattr(manager, "get_key_value_managers"):
        for _, pair in sorted(manager.get_key_value_managers().items()):
            for one in pair:
                if one is not None:
                    yield from _leaves(one)
    for one in features.require(manager, "get_child_managers")():
        yield from _leaves(one)
    if at_root:
        for leaf in getattr(manager, "get_epilogue_lambda_guards", list)():
            yield "", leaf


def places(noted: Iterable[Any]) -> Mapping[str, UserFrame]:
    """Of the guards that tracing asked for, by expression: the line that made Dynamo guard on it."""
    found: dict[str, UserFrame] = {}
    for guard in noted:
        stack = features.require(guard, "user_stack") or ()
        lines = users([failures.user_frame(one.filename, one.lineno or 0, one.name) for one in stack])
        if lines and guard.name:
            found.setdefault(str(guard.name), lines[-1])
    return found


def told(parts: Sequence[str], files: Iterable[str]) -> UserFrame | None:
    """The line in the first comment that names one in a file that was traced."""
    for part in parts:
        match = _PLACE.search(part)
        if match is not None:
            whole = next((one for one in files if one.endswith(match["file"])), None)
            if whole is not None and failures.torch_file(whole) is None:
                return failures.user_frame(whole, int(match["line"]), match["function"])
    return None
