"""The texts in values.pkl, and in bytecode there, rewritten opcode by opcode: nothing is unpickled or run.

A text's opcode carries its own length, and no other opcode says where it stands, but for frames, which only tell a
reader how much to fetch and may be left out. So each text can be replaced in its place; memo and order stay.
"""

from __future__ import annotations

import marshal
import pickletools
import struct
from collections.abc import Callable, Iterator
from types import CodeType

from replay import opcodes
from replay.errors import BundleError
from replay.shipping import is_builder

_TEXTS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})


def rewritten(values: bytes, change: Callable[[str], str], path: str, *, bytecode: bool = False) -> bytes:
    """The same pickles with changed texts; also in bytecode if `bytecode`, which must be of this very Python.

    Raises BundleError where the opcodes cannot be read; `path` is for it.
    """
    try:
        return b"".join(_pieces(values, change, _bytecode(values, change) if bytecode else {}))
    except (ValueError, OverflowError, struct.error, IndexError) as error:
        raise BundleError(f"{path}: values.pkl cannot be read ({error}); record the failure again") from error


def _pieces(values: bytes, change: Callable[[str], str], bytecode: dict[bytes, bytes]) -> Iterator[bytes]:
    position = 0
    while position < len(values):
        found = [
            (opcode.name, argument, at or 0) for opcode, argument, at in pickletools.genops(values[position:])
        ]
        ends = [at for _, _, at in found[1:]] + [found[-1][2] + 1]  # the last is STOP, of one byte
        for (name, argument, at), end in zip(found, ends, strict=True):
            if name == "FRAME":
                continue
            if name in _TEXTS and (text := change(str(argument))) != argument:
                yield _text(text)
            elif isinstance(argument, bytes) and argument in bytecode:
                yield b"B" + struct.pack("<I", len(bytecode[argument])) + bytecode[argument]
            else:
                yield values[position + at : position + end]
        position += ends[-1]


def _bytecode(values: bytes, change: Callable[[str], str]) -> dict[bytes, bytes]:
    """Marshalled code -> the same with other texts and another file's name."""
    found: dict[bytes, bytes] = {}
    for step in opcodes.read(values):
        name = step.subject
        if step.kind == "call" and isinstance(name, opcodes.Name) and is_builder(name.module, name.name):
            data = step.arguments[1] if name.name == "make_marshalled" and len(step.arguments) > 1 else None
            if isinstance(data, bytes) and (made := _recompiled(data, change)) is not None:
                found[data] = made
    return found


def _recompiled(data: bytes, change: Callable[[str], str]) -> bytes | None:
    """None for what is no code. Reading code does not run it."""
    try:
        code = marshal.loads(data)
        return marshal.dumps(_renamed(code, change)) if isinstance(code, CodeType) else None
    except (ValueError, EOFError, TypeError):
        return None


def _renamed(code: CodeType, change: Callable[[str], str]) -> CodeType:
    constants = tuple(
        _renamed(one, change) if isinstance(one, CodeType) else change(one) if isinstance(one, str) else one
        for one in code.co_consts
    )
    return code.replace(co_filename=change(code.co_filename), co_consts=constants)


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    if len(data) < 256:
        return b"\x8c" + bytes([len(data)]) + data
    if len(data) < 1 << 32:
        return b"X" + struct.pack("<I", len(data)) + data
    return b"\x8d" + struct.pack("<Q", len(data)) + data
