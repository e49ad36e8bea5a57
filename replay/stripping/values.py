"""The texts in values.pkl, rewritten opcode by opcode: nothing is unpickled, and so nothing is run.

A text's opcode carries its own length, and no other opcode says where it stands, but for frames, which only tell a
reader how much to fetch and may be left out. So each text can be replaced in its place; memo and order stay.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable, Iterator

from replay.errors import BundleError

_TEXTS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})


def rewritten(values: bytes, change: Callable[[str], str], path: str) -> bytes:
    """The same pickles with changed texts. Raises BundleError where the opcodes cannot be read; `path` is for it."""
    try:
        return b"".join(_pieces(values, change))
    except (ValueError, OverflowError, struct.error, IndexError) as error:
        raise BundleError(f"{path}: values.pkl cannot be read ({error}); record the failure again") from error


def _pieces(values: bytes, change: Callable[[str], str]) -> Iterator[bytes]:
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
            else:
                yield values[position + at : position + end]
        position += ends[-1]


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    if len(data) < 256:
        return b"\x8c" + bytes([len(data)]) + data
    if len(data) < 1 << 32:
        return b"X" + struct.pack("<I", len(data)) + data
    return b"\x8d" + struct.pack("<Q", len(data)) + data
