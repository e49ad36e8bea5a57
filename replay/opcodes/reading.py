"""Following a stream: the opcodes that look something up, call, change or hold a text become steps."""

from __future__ import annotations

import _compat_pickle
import io
import pickletools
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from replay.opcodes.machine import LONGEST, MOVING, Machine, Stopped, flat
from replay.opcodes.stand_ins import UNKNOWN, Kind, Made, Name, Step, Value

MOST = 2_000_000
"""Opcodes that are followed; a stream of more is read up to there, and the reader says so."""


def read(data: bytes, *, most: int = MOST) -> Iterator[Step]:
    """What the pickles in `data` do, one after another. Follows at most `most` opcodes.

    Never raises for what the bytes are: the last step says where and why reading ended, if it did so early.
    """
    stream, machine, count = io.BytesIO(data), Machine(), 0
    position = 0
    while position < len(data):
        try:
            for opcode, argument, at in pickletools.genops(stream):
                position = at or 0
                count += 1
                if count > most:
                    yield Step("end", f"more than {most} opcodes", position=position)
                    return
                for step in _follow(machine, opcode.name, argument):
                    yield Step(step.kind, step.subject, step.arguments, position)
        except Stopped as error:
            yield Step("end", f"the stream {error}", position=position)
            return
        except (ValueError, OverflowError, struct.error, IndexError) as error:
            yield Step("end", f"no opcode that can be read: {_short(error)}", position=stream.tell())
            return
        position = stream.tell()
        machine.stack.clear()
    yield Step("numbers", machine.numbers, position=position)


def _short(error: Exception) -> str:
    return str(error).partition("\n")[0][:100]


def _follow(machine: Machine, name: str, argument: Any) -> Iterator[Step]:
    plain = MOVING.get(name)
    if plain is not None:
        plain(machine, argument)
        return
    acting = ACTING.get(name)
    if acting is not None:
        yield from acting(machine, argument)
        return
    yield Step("unknown", f"the opcode {name}, which this reader does not know")


def _text(machine: Machine, argument: Any) -> Iterator[Step]:
    machine.stack.append(argument if len(argument) <= LONGEST or isinstance(argument, bytes) else UNKNOWN)
    yield Step("text", bytes(argument) if isinstance(argument, bytearray) else argument)


def _look_up(machine: Machine, module: Value, name: Value) -> Iterator[Step]:
    if not isinstance(module, str) or not isinstance(name, str):
        machine.stack.append(Made(None))
        yield Step("unknown", "a name that is computed while loading")
        return
    found = _renamed(module, name) if machine.protocol < 3 else Name(module, name)
    machine.stack.append(found)
    yield Step("name", found)


def _renamed(module: str, name: str) -> Name:
    """As pickle reads the names of Python 2 in protocols before 3."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        return Name(*_compat_pickle.NAME_MAPPING[module, name])
    return Name(_compat_pickle.IMPORT_MAPPING.get(module, module), name)


def _global(machine: Machine, argument: Any) -> Iterator[Step]:
    module, _, name = str(argument).partition(" ")
    yield from _look_up(machine, module, name)


def _stack_global(machine: Machine, argument: Any) -> Iterator[Step]:
    name, module = machine.pop(), machine.pop()
    yield from _look_up(machine, module, name)


def _call(machine: Machine, function: Value, arguments: Value, kind: Kind = "call") -> Iterator[Step]:
    known = arguments if isinstance(arguments, tuple) else (UNKNOWN,)
    machine.stack.append(Made(function if isinstance(function, Name) else None, _shallow(known)))
    yield Step(kind, function, known)


def _shallow(arguments: tuple[Value, ...]) -> tuple[Value, ...]:
    """Arguments without what they are made of in turn."""
    return tuple(UNKNOWN if isinstance(one, (Made, tuple, bytes)) else one for one in arguments)


def _reduce(machine: Machine, argument: Any) -> Iterator[Step]:
    arguments, function = machine.pop(), machine.pop()
    yield from _call(machine, function, arguments)


def _new_object(machine: Machine, argument: Any) -> Iterator[Step]:
    arguments, cls = machine.pop(), machine.pop()
    yield from _call(machine, cls, arguments, "make")


def _new_object_with_keywords(machine: Machine, argument: Any) -> Iterator[Step]:
    machine.pop()
    yield from _new_object(machine, argument)


def _instance(machine: Machine, argument: Any) -> Iterator[Step]:
    arguments = machine.pop_to_mark()
    module, _, name = str(argument).partition(" ")
    yield from _look_up(machine, module, name)
    yield from _call(machine, machine.pop(), flat(arguments))


def _object(machine: Machine, argument: Any) -> Iterator[Step]:
    items = machine.pop_to_mark()
    if not items:
        raise Stopped("makes an object of no class")
    yield from _call(machine, items[0], flat(items[1:]))


def _build(machine: Machine, argument: Any) -> Iterator[Step]:
    machine.pop()
    yield Step("change", machine.top())


def _one_item(count: int) -> Callable[[Machine, Any], Iterator[Step]]:
    def follow(machine: Machine, argument: Any) -> Iterator[Step]:
        for _ in range(count):
            machine.pop()
        if machine.top() is not UNKNOWN:
            yield Step("change", machine.top())

    return follow


def _items(machine: Machine, argument: Any) -> Iterator[Step]:
    machine.pop_to_mark()
    if machine.top() is not UNKNOWN:
        yield Step("change", machine.top())


def _persistent(machine: Machine, argument: Any) -> Iterator[Step]:
    machine.stack.append(Made(None))
    yield Step("unknown", "an object that the loading program would have to have (a persistent id)")


def _persistent_of_stack(machine: Machine, argument: Any) -> Iterator[Step]:
    machine.pop()
    yield from _persistent(machine, argument)


def _extension(machine: Machine, argument: Any) -> Iterator[Step]:
    machine.stack.append(Made(None))
    yield Step("unknown", f"number {argument} in the extension registry of the loading program")


def _buffer(machine: Machine, argument: Any) -> Iterator[Step]:
    machine.stack.append(UNKNOWN)
    yield Step("unknown", "a buffer from outside of the stream")


ACTING: Mapping[str, Callable[[Machine, Any], Iterator[Step]]] = {
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE"), _text),
    **dict.fromkeys(("SHORT_BINUNICODE", "BINUNICODE8"), _text),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), _text),
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _reduce,
    "NEWOBJ": _new_object,
    "NEWOBJ_EX": _new_object_with_keywords,
    "INST": _instance,
    "OBJ": _object,
    "BUILD": _build,
    "APPEND": _one_item(1),
    "SETITEM": _one_item(2),
    **dict.fromkeys(("APPENDS", "SETITEMS", "ADDITEMS"), _items),
    "PERSID": _persistent,
    "BINPERSID": _persistent_of_stack,
    **dict.fromkeys(("EXT1", "EXT2", "EXT4"), _extension),
    "NEXT_BUFFER": _buffer,
}
