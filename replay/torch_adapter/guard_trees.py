"""The tree of one cached entry's guards: how it is gone through, and what it was compiled for. Asks no guard."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replay.torch_adapter import expressions, features, process_state, tensor_guards, words

FIRST = re.compile(r"""[LG]\[(?:'[^']*'|"[^"]*")\](?:\.\w+(?:\(\))?|\[[^\]]*\])*""")
"""An expression of a source within a condition."""


@dataclass(frozen=True, slots=True)
class Noted:
    """What a guard's source was when the entry was compiled."""

    text: str
    type: str
    layout: tensor_guards.Layout | None = None
    length: int | None = None  # of one of Python's own containers


def noted(root: Any, scope: Mapping[str, Any]) -> dict[str, Noted]:
    """What each source of an entry is now, and the state of the process."""
    found = {name: Noted(text, "") for name, text in process_state.read().items()}
    waiting = [root]
    while waiting:
        manager = waiting.pop()
        waiting += _children(manager)
        source = source_of(manager)
        if source not in ("L", "G", ""):
            found.setdefault(source, _note(expressions.read(source, scope)))
        for leaf in features.require(manager, "get_leaf_guards")():
            _note_expressions(leaf, scope, found)
    for leaf in getattr(root, "get_epilogue_lambda_guards", list)():
        _note_expressions(leaf, scope, found)
    return found


def _note_expressions(leaf: Any, scope: Mapping[str, Any], found: dict[str, Noted]) -> None:
    """Of conditions on sizes and the like, what they speak of."""
    if type(leaf).__name__ in ("LAMBDA_GUARD", "SYMBOLIC_SHAPE_GUARD"):
        for part in parts_of(leaf):
            for one in FIRST.findall(code_of(part)):
                found.setdefault(one, _note(expressions.read(one, scope)))


def _note(value: Any) -> Noted:
    return Noted(words.told(value), words.type_name(value), tensor_guards.layout(value), words.length(value))


def pairs_of(manager: Any) -> list[tuple[Any, Any]]:
    """Of a dictionary that is asked in its order: key and value, where they are asked."""
    if not hasattr(manager, "get_key_value_managers"):
        return []
    found = manager.get_key_value_managers()
    return [tuple(found[at]) for at in sorted(found)]


def _children(manager: Any) -> list[Any]:
    both = [one for pair in pairs_of(manager) for one in pair if one is not None]
    return [*both, *features.require(manager, "get_child_managers")()]


def source_of(manager: Any) -> str:
    """The expression that it looks at, in torch's words."""
    return str(features.require(manager, "get_source")())


def parts_of(leaf: Any) -> list[str]:
    """The conditions that a guard asks, each with torch's comment on where it comes from."""
    return [str(one) for one in features.require(leaf, "verbose_code_parts")()]


def code_of(part: str) -> str:
    """A condition without the comment that torch puts behind it."""
    return part.partition("  #")[0].rstrip()
