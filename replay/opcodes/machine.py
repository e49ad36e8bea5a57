"""Stack and memo of stand-ins, and the opcodes that only move what is on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from replay.opcodes.stand_ins import UNKNOWN, Value

LONGEST = 512
"""Characters of a text that can be a name; a longer one is reported, and not remembered."""

WIDEST = 8
"""Items of a tuple that are remembered."""


class Stopped(Exception):  # noqa: N818 - no error: the stream asks for what it has not
    """The stream takes from a stack or a memo what is not there; unpickling ends here as well."""


MARK: Final = object()


class Machine:
    """Stack and memo of stand-ins; one for all pickles of a stream, which share their memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Value] = {}
        self.protocol = 0
        self.numbers = 0  # that were put on the stack

    def pop(self) -> Value:
        """Take the uppermost; raises Stopped."""
        if not self.stack or self.stack[-1] is MARK:
            raise Stopped("takes from an empty stack")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Value]:
        """Take all down to the mark, and the mark; in the order in which they came."""
        items: list[Value] = []
        while self.stack:
            if (item := self.stack.pop()) is MARK:
                items.reverse()
                return items
            items.append(item)
        raise Stopped("asks for a mark that is not there")

    def top(self) -> Value:
        """The uppermost, which stays."""
        if not self.stack or self.stack[-1] is MARK:
            raise Stopped("uses an empty stack")
        return self.stack[-1]

    def recall(self, index: int) -> None:
        """Put what the memo has under this number on the stack."""
        if index not in self.memo:
            raise Stopped(f"asks for object {index}, which it has not noted")
        self.stack.append(self.memo[index])


def _push_unknown(machine: Machine, argument: Any) -> None:
    machine.stack.append(UNKNOWN)


def _number(machine: Machine, argument: Any) -> None:
    machine.numbers += 1
    machine.stack.append(UNKNOWN)


def _nothing(machine: Machine, argument: Any) -> None:
    """Framing, and the end of a pickle."""


def _protocol(machine: Machine, argument: Any) -> None:
    machine.protocol = argument


def _mark(machine: Machine, argument: Any) -> None:
    machine.stack.append(MARK)


def _pop(machine: Machine, argument: Any) -> None:
    if not machine.stack:
        raise Stopped("takes from an empty stack")
    machine.stack.pop()


def _pop_mark(machine: Machine, argument: Any) -> None:
    machine.pop_to_mark()


def _duplicate(machine: Machine, argument: Any) -> None:
    machine.stack.append(machine.top())


def _replace_marked(machine: Machine, argument: Any) -> None:
    machine.pop_to_mark()
    machine.stack.append(UNKNOWN)


def _tuple(machine: Machine, argument: Any) -> None:
    machine.stack.append(flat(machine.pop_to_mark()))


def _tuple_of(size: int) -> Callable[[Machine, Any], None]:
    def push(machine: Machine, argument: Any) -> None:
        items = [machine.pop() for _ in range(size)]
        machine.stack.append(flat(items[::-1]))

    return push


def flat(items: list[Value]) -> tuple[Value, ...]:
    """The items that are remembered: tuples in a tuple, but none in those, so that no nesting can be built up."""
    kept = tuple(UNKNOWN if _is_nested(item) else item for item in items[:WIDEST])
    return kept if len(items) <= WIDEST else (*kept, UNKNOWN)


def _is_nested(item: Value) -> bool:
    return isinstance(item, tuple) and any(isinstance(one, tuple) for one in item)


def _memoize(machine: Machine, argument: Any) -> None:
    machine.memo[len(machine.memo)] = machine.top()


def _put(machine: Machine, argument: Any) -> None:
    machine.memo[int(argument)] = machine.top()


def _get(machine: Machine, argument: Any) -> None:
    machine.recall(int(argument))


MOVING: Mapping[str, Callable[[Machine, Any], None]] = {
    **dict.fromkeys(("PROTO",), _protocol),
    **dict.fromkeys(("FRAME", "STOP"), _nothing),
    **dict.fromkeys(("NONE", "NEWTRUE", "NEWFALSE", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"), _push_unknown),
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"), _number),
    **dict.fromkeys(("FLOAT", "BINFLOAT"), _number),
    "EMPTY_TUPLE": lambda machine, argument: machine.stack.append(()),
    "TUPLE": _tuple,
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    **dict.fromkeys(("LIST", "DICT", "FROZENSET"), _replace_marked),
    "MARK": _mark,
    "POP": _pop,
    "POP_MARK": _pop_mark,
    "DUP": _duplicate,
    "MEMOIZE": _memoize,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _get),
    "READONLY_BUFFER": _nothing,
}
