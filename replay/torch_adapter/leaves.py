"""The guards of one cached entry, each asked by itself: those that a call does not pass, as plain data.

Which value a guard looks at is read from the expression that torch has for it (`expressions`). Relations between
several values are asked in torch's words, as torch itself does for its logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replay.recording import UserFrame
from replay.torch_adapter import (
    conditions,
    expressions,
    features,
    guard_trees,
    process_state,
    tensor_guards,
    words,
)


@dataclass(frozen=True, slots=True)
class Failed:
    """One guard that a call does not pass, or one thing of several that it asks."""

    kind: str  # torch's name: "EQUALS_MATCH"; "ABSENT": what it looks at is not there
    aspect: str  # of a tensor: "size"; of the process: "grad_mode"; else empty
    guard: str  # the condition, in torch's words
    source: str
    expected: str
    seen: str
    was: str  # the name of the type of the value that was compiled for; empty where it is not known
    now: str
    dimension: int | None = None
    place: UserFrame | None = None


NOWHERE = guard_trees.Noted("", "")
ONE, TWO = "the same object", "another object"
"""Of two expressions: whether they name one object."""

INFERENCE = "inference_mode"
_ALIAS = re.compile(r"^[LG]\[.* is [LG]\[")
_LENGTH = re.compile(r" == (\d+)$")
_CONTAINS = re.compile(r"^(?P<no>not )?___dict_contains\((?P<key>'[^']*'|\"[^\"]*\"|[^,]+), ")
_LENGTHS = ("LENGTH_CHECK", "DICT_LENGTH")
_KEY = re.compile(r"^list\(dict\.keys\((.+)\)\)\[\d+\]$")
"""How torch writes a key of a dictionary."""
_RELATIONS = ("OBJECT_ALIASING", "NO_TENSOR_ALIASING", "STORAGE_OVERLAPPING")
"""Asking one of these by itself would change what it remembers of a check that is going on."""


class Walk:
    """One entry, asked by one call. `unread` grows: sources that cannot be read without code of the user's."""

    def __init__(
        self,
        scope: Mapping[str, Any],
        known: Mapping[str, guard_trees.Noted],
        places: Mapping[str, UserFrame],
        files: Sequence[str],
    ) -> None:
        self.unread: list[str] = []
        self._of_state = False  # whether the state of the process differs
        self._scope, self._known, self._places, self._files = scope, known, places, files

    def failed(self, root: Any) -> Iterator[Failed]:
        """Every guard that fails, in the order of torch's check."""
        yield from self._below(root, self._scope["L"])
        for leaf in getattr(root, "get_epilogue_lambda_guards", list)():
            yield from self._asked(leaf, "", self._scope["L"])

    def unparsed(self, part: str) -> Failed:
        """The condition that torch names where none was found to fail by itself."""
        return self._condition("OTHER", part, "")

    def _condition(self, kind: str, part: str, source: str) -> Failed:
        code = guard_trees.code_of(part)
        if _ALIAS.match(code):
            return self._made("OBJECT_ALIASING", part, self._source_in(code), expected=ONE, seen=TWO)
        return self._made(kind, part, self._source_in(code) or source)

    def _below(self, manager: Any, value: Any, reached: bool = True) -> Iterator[Failed]:
        """`reached`: nothing above has failed, so that what is missing below is a difference of its own."""
        source = guard_trees.source_of(manager)
        found = [one for leaf in manager.get_leaf_guards() for one in self._asked(leaf, source, value)]
        found += self._size(manager, source, value)
        yield from found
        reached = reached and not found
        for key, item in guard_trees.pairs_of(manager):
            other = [] if key is None else list(self._child(key, value, reached))
            yield from other
            if item is not None:
                yield from self._child(item, value, reached and not other)
        for child in features.require(manager, "get_child_managers")():
            yield from self._child(child, value, reached)

    def _child(self, child: Any, owner: Any, reached: bool) -> Iterator[Failed]:
        source = guard_trees.source_of(child)
        below = expressions.read(source, self._scope)
        if below is expressions.UNKNOWN:
            self.unread.append(source)
        elif below is not expressions.ABSENT:
            yield from self._below(child, below, reached)
        elif reached:
            # what has no code is another kind of callable: that is what came
            seen = words.told(owner) if source.endswith(".__code__") else "absent"
            yield self._made("ABSENT", f"{source} is there", source, seen=seen, now="absent")

    def _size(self, manager: Any, source: str, value: Any) -> list[Failed]:
        """A dictionary's length, which torch asks without a leaf of its own."""
        known, length = self._known.get(source, NOWHERE).length, words.length(value)
        if not hasattr(manager, "get_key_value_managers") or None in (known, length) or known == length:
            return []
        guard = f"len({source}) == {known}"
        return [self._made("DICT_LENGTH", guard, source, expected=str(known), seen=str(length))]

    def _asked(self, leaf: Any, source: str, value: Any) -> Iterator[Failed]:
        kind, parts = type(leaf).__name__, guard_trees.parts_of(leaf)
        if kind in _RELATIONS:
            yield from self._related(kind, parts)
        elif not self._passes(leaf, value, parts):
            yield from self._described(leaf, kind, parts, source, value)

    def _passes(self, leaf: Any, value: Any, parts: Sequence[str]) -> bool:
        if not callable(leaf):
            return all(self._holds(part) is not False for part in parts)
        try:
            return bool(leaf(value))
        except Exception:  # noqa: BLE001 - torch counts an error of a guard as a failure
            return False

    def _holds(self, part: str) -> bool | None:
        """Whether a condition in torch's words holds; None where it cannot be evaluated."""
        try:
            return bool(eval(guard_trees.code_of(part), dict(self._scope)))  # torch's own text, as torch does
        except Exception:  # noqa: BLE001 - a name that is no longer there
            return None

    def _related(self, kind: str, parts: Sequence[str]) -> Iterator[Failed]:
        """Which arguments are one object, and which are not."""
        for part in parts:
            if kind == "OBJECT_ALIASING" and self._holds(part) is False:
                yield self._condition(kind, part, "")
            elif kind == "NO_TENSOR_ALIASING":
                for one, other in self._shared(guard_trees.FIRST.findall(guard_trees.code_of(part))):
                    yield self._made(kind, f"{one} is not {other}", other, expected=TWO, seen=ONE)

    def _shared(self, sources: Sequence[str]) -> Iterator[tuple[str, str]]:
        seen: dict[int, str] = {}
        for one in sources:
            value = expressions.read(one, self._scope)
            if value is not expressions.ABSENT and value is not expressions.UNKNOWN and id(value) in seen:
                yield seen[id(value)], one
            seen.setdefault(id(value), one)

    def _described(
        self, leaf: Any, kind: str, parts: Sequence[str], source: str, value: Any
    ) -> Iterator[Failed]:
        first = parts[0] if parts else kind
        if kind == "GLOBAL_STATE":
            yield from self._state(kind, first, _reason(leaf, value))
        elif kind in ("DEFAULT_DEVICE", "TORCH_FUNCTION_MODE_STACK"):
            name = "default_device" if kind == "DEFAULT_DEVICE" else "function_modes"
            yield from self._state(kind, first, [name])
        elif kind == "TENSOR_MATCH":
            yield from self._tensor(first, source, value)
        elif source in ("", "L", "G") or len(parts) > 1:
            wrong = [one for one in parts if self._holds(one) is False] or parts[:1]
            yield from (self._condition(kind, one, source) for one in wrong)
        else:
            yield self._single(kind, first, source, value)

    def _single(self, kind: str, part: str, source: str, value: Any) -> Failed:
        code = guard_trees.code_of(part)
        length, key = _LENGTH.search(code), _CONTAINS.match(code)
        if kind in _LENGTHS and words.length(value) is not None:
            expected = length[1] if length is not None else "0" if code.startswith("not ") else ""
            return self._made(kind, part, source, expected=expected, seen=str(words.length(value)))
        if key is not None:
            there = f"key {key['key']}", f"no key {key['key']}"
            expected, seen = there[::-1] if key["no"] else there
            return self._made(kind, part, source, expected=expected, seen=seen)
        if kind == "TYPE_MATCH":
            known = self._known.get(source, NOWHERE).type
            return self._made(kind, part, source, expected=known, seen=words.type_name(value))
        return self._made(kind, part, source)

    def _tensor(self, part: str, source: str, value: Any) -> Iterator[Failed]:
        compiled = self._known.get(source, NOWHERE).layout
        for one in tensor_guards.differing(guard_trees.code_of(part), value, compiled):
            if one.name in ("keys", "inference") and self._in_other_mode():
                yield from self._state("DISPATCH_KEYS", INFERENCE, [INFERENCE])
            if one.name == "keys" and self._of_state:
                continue  # how torch dispatches follows from it
            yield self._made(
                "TENSOR_MATCH",
                part,
                _property(source, one),
                aspect=one.name,
                expected=one.expected,
                seen=one.seen,
                dimension=one.dimension,
                about=source,
            )

    def _in_other_mode(self) -> bool:
        """Whether inference mode is on now and was not, or the other way round."""
        return self._known.get(INFERENCE, NOWHERE).text != process_state.read()[INFERENCE]

    def _state(self, kind: str, part: str, names: Sequence[str]) -> Iterator[Failed]:
        self._of_state, now = True, process_state.read()
        for name in names:
            guard = f"{process_state.PREFIX} {name}" if kind == "GLOBAL_STATE" else part
            yield self._made(kind, guard, name, aspect=name, seen=now.get(name, ""))

    def _made(
        self,
        kind: str,
        part: str,
        source: str,
        *,
        aspect: str = "",
        expected: str | None = None,
        seen: str | None = None,
        now: str = "",
        dimension: int | None = None,
        about: str = "",
    ) -> Failed:
        known = self._known.get(source, NOWHERE)
        value = expressions.read(source, self._scope) if source and not aspect else expressions.UNKNOWN
        key = _KEY.match(source)
        if key is not None:
            was, came = f"key {known.text}", f"key {words.told(value)}"
            return Failed(
                "MAPPING_KEYS_MATCH",
                "",
                guard_trees.code_of(part),
                key[1],
                was,
                came,
                "",
                "",
                None,
                self._place(part, key[1]),
            )
        return Failed(
            kind=kind,
            aspect=aspect,
            guard=guard_trees.code_of(part),
            source=source,
            expected=known.text if expected is None else expected,
            seen=words.told(value) if seen is None else seen,
            was=known.type,
            now=now or words.type_name(value),
            dimension=dimension,
            place=self._place(part, about or source),
        )

    def _place(self, part: str, source: str) -> UserFrame | None:
        return self._places.get(source) or conditions.told([part], self._files)

    def _source_in(self, code: str) -> str:
        """What a condition is about: of several, the first that is other than it was."""
        found = guard_trees.FIRST.findall(code)
        for one in found:
            was = self._known.get(one)
            if was is not None and was.text != words.told(expressions.read(one, self._scope)):
                return str(one)
        return str(found[0]) if found else ""


def _property(source: str, one: tensor_guards.Aspect) -> str:
    if one.name == "stride":
        return f"{source}.stride()"
    return source if one.dimension is None else f"{source}.{one.name}()[{one.dimension}]"


def _reason(leaf: Any, value: Any) -> list[str]:
    """Which state differs, where this torch tells."""
    told = getattr(leaf, "check_verbose", None)
    parts = told(value).verbose_code_parts if told is not None else ()
    return [name for part in parts for name in process_state.changed(part)] or ["state"]
