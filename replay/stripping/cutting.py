"""Pieces cut out of values.pkl, opcode by opcode: globals, earlier calls. Nothing is unpickled, and so nothing is run.

A stream in replay's own form notes objects in order, so that a piece can go if the numbers after it are made to fit.
What the piece holds and the rest refers to must be made anew there: texts and names are; an object that is shared
stays, and the piece with it, which is told.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from replay.errors import BundleError
from replay.shipping import is_builder

TAKEN_OUT = "it was taken out of the bundle by strip"
"""Why a global is missing that was cut out."""

_TEXTS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_ATOMS = frozenset(
    {
        *("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
        *("EMPTY_LIST", "EMPTY_SET", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    }
)
_IDLE = frozenset({"PROTO", "FRAME"})
_GETS = frozenset({"BINGET", "LONG_BINGET"})
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARKED = frozenset({"TUPLE", "LIST", "DICT", "FROZENSET"})
_MARK_ENDERS = frozenset({"APPENDS", "SETITEMS", "ADDITEMS"})
_FILLERS = frozenset({"fill_function", "fill_module"})


@dataclass(slots=True)
class _Node:
    """What one stack element is made of: where its opcodes begin, and what is needed of it."""

    start: int
    text: str | None = None
    name: tuple[str, str] | None = None
    items: list[_Node] = field(default_factory=list)  # of a tuple
    entries: dict[str, tuple[int, int]] | None = None  # of a dictionary: key -> the opcodes of its value
    first: _Node | None = None  # the node that this one refers to

    @property
    def itself(self) -> _Node:
        return self.first or self


@dataclass(frozen=True, slots=True)
class _Cut:
    """Opcodes from `start` to `end` that are replaced."""

    what: str
    start: int
    end: int
    instead: bytes


@dataclass(frozen=True, slots=True)
class CutOut:
    """The values without the pieces."""

    values: bytes
    gone: tuple[str, ...]
    shared: tuple[str, ...]  # what stays, because the rest refers to an object in it
    elsewhere: tuple[
        str, ...
    ]  # what went by name only: its object is also held by something else, and stays there


class _OtherForm(Exception):  # noqa: N818 - no error: the stream is not in the form that can be cut
    """The stream has an opcode that replay's writer does not write."""


def without(values: bytes, names: Collection[str], *, calls: bool, path: str) -> CutOut:
    """Without the globals of these names, and without earlier calls if `calls`.

    A placeholder stands for each global, so that a replay that needs it says so. Raises BundleError where the values
    are not in replay's own form; `path` is for its message.
    """
    gone: list[str] = []
    shared: list[str] = []
    elsewhere: list[str] = []
    for what in [*(f"global {name}" for name in names), *(["earlier calls"] if calls else [])]:
        try:
            stream = _Stream(values)
            cuts = list(stream.cuts(what))
            if not cuts:
                continue
            made = stream.replaced(cuts)
            if made is not None and all(stream.is_reference(cut) for cut in cuts):
                elsewhere.append(what)
        except (_OtherForm, ValueError, IndexError, KeyError) as error:
            reason = f"values.pkl is not as replay writes it ({error})"
            raise BundleError(f"{path}: {reason}; nothing can be cut out of it") from error
        if made is None:
            shared.append(what)
        else:
            values = made
            gone.append(what)
    return CutOut(values, tuple(gone), tuple(shared), tuple(elsewhere))


class _Stream:
    """The opcodes of a stream, and what its dictionaries of globals and its root hold where."""

    def __init__(self, values: bytes) -> None:
        self.values = values
        self.ops = list(_operations(values))
        self.numbers: dict[int, int] = {}  # opcode that notes an object -> the object's number
        self._memo: list[_Node] = []
        self._stack: list[_Node | None] = []  # None: a mark
        self._globals: list[_Node] = []
        self._root: _Node | None = None
        for position, (name, argument, _) in enumerate(self.ops):
            self._follow(position, name, argument)

    def cuts(self, what: str) -> Iterator[_Cut]:
        """Where a global, or the earlier calls, stand in the stream."""
        if what == "earlier calls":
            entries = self._root.entries if self._root is not None else None
            if entries and "calls" in entries and entries["calls"][1] - entries["calls"][0] > 2:
                yield _Cut(what, *entries["calls"], b"]")
            return
        wanted = what.removeprefix("global ")
        for node in self._globals:
            if node.entries and wanted in node.entries:
                yield _Cut(what, *node.entries[wanted], _placeholder(wanted))

    def is_reference(self, cut: _Cut) -> bool:
        """Whether the piece only refers to an object that something else holds."""
        return cut.end - cut.start == 1 and self.ops[cut.start][0] in _GETS

    def replaced(self, cuts: list[_Cut]) -> bytes | None:
        """The bytes with the cuts made; None where what stays refers to an object that would go."""
        inside = {at for cut in cuts for at in range(cut.start, cut.end)}
        instead = {cut.start: cut.instead for cut in cuts}
        renumbered: dict[int, int] = {}
        for at, number in self.numbers.items():
            if at not in inside:
                renumbered[number] = len(renumbered)
        pieces = []
        for at, (name, argument, data) in enumerate(self.ops):
            if at in instead:
                pieces.append(instead[at])
            if at in inside or name == "FRAME":
                continue
            if name not in _GETS:
                pieces.append(data)
            elif argument in renumbered:
                pieces.append(_get(renumbered[argument]))
            elif (again := _again(self._memo[argument])) is not None:
                pieces.append(again)
            else:
                return None
        return b"".join(pieces)

    # --- the stack

    def _follow(self, at: int, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _IDLE:
            return
        if name in _ATOMS:
            stack.append(_Node(at))
        elif name in _TEXTS:
            stack.append(_Node(at, text=str(argument)))
        elif name == "EMPTY_DICT":
            stack.append(_Node(at, entries={}))
        elif name == "MARK":
            stack.append(None)
            stack.append(_Node(at))  # where what the mark begins begins
        elif name == "MEMOIZE":
            self.numbers[at] = len(self._memo)
            self._memo.append(self._top())
        elif name in _GETS:
            stack.append(_reference(at, self._memo[argument]))
        elif name in _TUPLES:
            items = [self._pop() for _ in range(_TUPLES[name])][::-1]
            stack.append(_Node(items[0].start if items else at, items=items))
        elif name in _MARKED:
            start, items = self._pop_to_mark()
            stack.append(_Node(start, items=items if name == "TUPLE" else []))
        else:
            self._act(at, name)

    def _act(self, at: int, name: str) -> None:
        if name in _MARK_ENDERS:
            _, items = self._pop_to_mark()
            if name == "SETITEMS":
                self._note_entries(items, at)
        elif name == "SETITEM":
            value, key = self._pop(), self._pop()
            self._note_entries([key, value], at)
        elif name in ("APPEND", "BUILD") or name == "POP":
            self._pop()
        elif name == "STACK_GLOBAL":
            called, module = self._pop(), self._pop()
            known = (module.itself.text or "", called.itself.text or "")
            self._stack.append(_Node(module.start, name=known))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments, function = self._pop(), self._pop()
            self._note_globals(function.itself, arguments.itself.items)
            self._stack.append(_Node(function.start))
        elif name == "STOP":
            self._end_of_pickle()
        else:
            raise _OtherForm(f"it has the opcode {name}")

    def _note_entries(self, items: list[_Node], end: int) -> None:
        holder = self._top().itself
        if holder.entries is None:
            return
        ends = [item.start for item in items[2::2]] + [end]
        for key, value, stop in zip(items[::2], items[1::2], ends, strict=True):
            if key.itself.text is not None:
                holder.entries[key.itself.text] = (value.start, stop)

    def _note_globals(self, function: _Node, arguments: list[_Node]) -> None:
        """`fill_function(function, (globals, ...))`: its dictionary is one of globals."""
        known = function.name is not None and is_builder(*function.name) and function.name[1] in _FILLERS
        if known and len(arguments) == 2 and arguments[1].itself.items:
            self._globals.append(arguments[1].itself.items[0].itself)

    def _end_of_pickle(self) -> None:
        root = self._top().itself
        if self._root is None:
            self._root = root
        elif len(root.items) == 4 and root.items[0].itself.text == "fill":
            self._note_globals(root.items[1].itself, root.items[2:])
        self._stack.clear()

    def _top(self) -> _Node:
        top = self._stack[-1]
        if top is None:
            raise _OtherForm("it uses a mark")
        return top

    def _pop(self) -> _Node:
        top = self._top()
        self._stack.pop()
        return top

    def _pop_to_mark(self) -> tuple[int, list[_Node]]:
        items: list[_Node] = []
        while self._stack[-1] is not None:
            items.append(self._pop())
        self._stack.pop()
        begin = items.pop()
        return begin.start, items[::-1]


def _operations(values: bytes) -> Iterator[tuple[str, Any, bytes]]:
    position = 0
    while position < len(values):
        found = [(op.name, argument, at or 0) for op, argument, at in pickletools.genops(values[position:])]
        ends = [at for _, _, at in found[1:]] + [found[-1][2] + 1]
        for (name, argument, at), end in zip(found, ends, strict=True):
            yield name, argument, values[position + at : position + end]
        position += ends[-1]


def _reference(at: int, node: _Node) -> _Node:
    return _Node(at, first=node.itself)


def _get(number: int) -> bytes:
    return b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)


def _again(node: _Node) -> bytes | None:
    """The opcodes that make a text or a name anew; None for any other object, of which there is only one."""
    node = node.itself
    if node.text is not None:
        return _text(node.text)
    return _global(*node.name) if node.name is not None else None


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def _global(module: str, name: str) -> bytes:
    return _text(module) + _text(name) + b"\x93"


def _placeholder(name: str) -> bytes:
    words = (f"globals.{name}", "global", TAKEN_OUT)
    maker = _global("replay.shipping.placeholders", "make_known_placeholder")
    return maker + b"".join(map(_text, words)) + b"\x87R"
