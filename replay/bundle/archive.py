"""The ZIP framing of a bundle, in the one form that `replay` writes: headers, directory, end.

Headers are functions of a `Record`, so reading is strict by construction: the central directory is
parsed, everything else is rebuilt from it and must be equal to what the file holds, byte for byte. Nothing
between two entries, before the first or after the last escapes this. See docs/bundle-format.md.

What the entries mean, digests and files' names live elsewhere; nothing here inflates or writes a file.
"""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

ALIGNMENT = 64
"""Blobs begin at multiples of this many bytes in the file: a cache line, and any vector register's width."""

MAX_ENTRIES = 100_000
MAX_DIRECTORY = 64 << 20  # bytes of the central directory
MAX_NAME = 1024  # bytes of an entry's name

_LIMIT16 = 0xFFFF
_LIMIT32 = 0xFFFFFFFF  # from this value on, a field moves to the ZIP64 records
_UTF8 = 0x0800  # general purpose flag: names are UTF-8
_DATE = 0x0021  # 1980-01-01, the smallest: equal contents make equal files
_UNIX = 3 << 8  # made on Unix, so that the mode below counts
_MODE = 0o100644 << 16
_VERSION, _VERSION_ZIP64 = 20, 45
_STORED, _DEFLATED = 0, 8
_ZIP64_ID, _ALIGNMENT_ID = 0x0001, 0xD935  # the second is Android's zipalign's, known to unzip tools

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")

_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control, format and separator characters. `isprintable` would refuse a letter younger than this Python."""

LOCAL_SIGNATURE = b"PK\x03\x04"
END_SIGNATURE = b"PK\x05\x06"

ReadAt = Callable[[int, int], bytes]
"""`read(offset, size)`: exactly `size` bytes of the file."""


class FramingError(Exception):
    """The bytes are not the framing that `replay` writes; the message continues "the archive ..."."""


@dataclass(frozen=True, slots=True)
class Record:
    """One entry, as the central directory describes it."""

    name: str
    deflated: bool
    crc: int  # crc32 of the contents
    packed: int  # bytes in the file
    size: int  # bytes of the contents
    offset: int  # of the local header
    aligned: bool = False  # the contents begin at a multiple of ALIGNMENT

    @property
    def data_offset(self) -> int:
        """Where the entry's bytes begin in the file."""
        return self.offset + len(local_header(self))

    @property
    def end(self) -> int:
        """Where the next entry begins."""
        return self.data_offset + self.packed


def local_header(record: Record) -> bytes:
    """The bytes before an entry's contents. Their length does not depend on the checksum."""
    name = record.name.encode()
    large = record.size >= _LIMIT32 or record.packed >= _LIMIT32
    extra = struct.pack("<2H2Q", _ZIP64_ID, 16, record.size, record.packed) if large else b""
    if record.aligned:
        extra += _padding(record.offset + _LOCAL.size + len(name) + len(extra))
    return (
        _LOCAL.pack(
            LOCAL_SIGNATURE,
            _VERSION_ZIP64 if large else _VERSION,
            _UTF8,
            _DEFLATED if record.deflated else _STORED,
            0,
            _DATE,
            record.crc,
            _LIMIT32 if large else record.packed,
            _LIMIT32 if large else record.size,
            len(name),
            len(extra),
        )
        + name
        + extra
    )


def _padding(position: int) -> bytes:
    """The extra field that brings what follows it to the alignment: id, length, the alignment, zeros."""
    zeros = -(position + 6) % ALIGNMENT
    return struct.pack("<3H", _ALIGNMENT_ID, 2 + zeros, ALIGNMENT) + bytes(zeros)


def directory(records: Iterable[Record]) -> bytes:
    """The central directory."""
    return b"".join(map(_central_record, records))


def _central_record(record: Record) -> bytes:
    name = record.name.encode()
    wide = [n for n in (record.size, record.packed, record.offset) if n >= _LIMIT32]
    extra = struct.pack(f"<2H{len(wide)}Q", _ZIP64_ID, 8 * len(wide), *wide) if wide else b""
    return (
        _CENTRAL.pack(
            b"PK\x01\x02",
            _UNIX | _VERSION_ZIP64,
            _VERSION_ZIP64 if wide else _VERSION,
            _UTF8,
            _DEFLATED if record.deflated else _STORED,
            0,
            _DATE,
            record.crc,
            min(record.packed, _LIMIT32),
            min(record.size, _LIMIT32),
            len(name),
            len(extra),
            0,
            0,
            0,
            _MODE,
            min(record.offset, _LIMIT32),
        )
        + name
        + extra
    )


def end_records(count: int, size: int, offset: int, comment: bytes) -> bytes:
    """What closes the archive: for a directory of `count` entries and `size` bytes at `offset`."""
    head = b""
    if count >= _LIMIT16 or size >= _LIMIT32 or offset >= _LIMIT32:
        version = _VERSION_ZIP64
        head = _END64.pack(b"PK\x06\x06", 44, _UNIX | version, version, 0, 0, count, count, size, offset)
        head += _LOCATOR.pack(b"PK\x06\x07", 0, offset + size, 1)
    small = min(count, _LIMIT16)
    end = _END.pack(
        END_SIGNATURE, 0, 0, small, small, min(size, _LIMIT32), min(offset, _LIMIT32), len(comment)
    )
    return head + end + comment


def read_directory(
    read: ReadAt, file_size: int, comment_size: int, is_aligned: Callable[[str], bool]
) -> list[Record]:
    """The entries of the archive, in the file's order; every byte of the framing has been checked.

    `is_aligned` says which names are blobs. Raises FramingError; reads no entry's contents.
    """
    count, size, offset, tail = _find_directory(read, file_size, comment_size)
    stored = read(offset, size)
    records = _parse_directory(stored, is_aligned)
    if len(records) != count:
        raise FramingError(f"lists {len(records)} entries and announces {count}")
    comment = tail[len(tail) - comment_size :]
    if directory(records) != stored or end_records(count, size, offset, comment) != tail:
        raise FramingError("has a directory that replay would not write")
    _check_names(records)
    _check_headers(read, records, offset)
    return records


def _find_directory(read: ReadAt, file_size: int, comment_size: int) -> tuple[int, int, int, bytes]:
    """Count, size and offset of the directory, and all bytes behind it."""
    start = file_size - comment_size - _END.size
    if start < 0:
        raise FramingError("is too short")
    signature, _, _, _, count, size, offset, length = _END.unpack(read(start, _END.size))
    if signature != END_SIGNATURE or length != comment_size:
        raise FramingError("does not end where its last record should stand")
    if count == _LIMIT16 or _LIMIT32 in (size, offset):
        start -= _END64.size + _LOCATOR.size
        if start < 0:
            raise FramingError("is too short")
        count, size, offset = _END64.unpack(read(start, _END64.size))[-3:]
    if count > MAX_ENTRIES or size > MAX_DIRECTORY:
        raise FramingError(f"has {count} entries in a directory of {size} bytes, more than replay accepts")
    if offset + size != start:
        raise FramingError("has a directory that does not reach its end")
    return count, size, offset, read(start, file_size - start)


def _parse_directory(stored: bytes, is_aligned: Callable[[str], bool]) -> list[Record]:
    records, position = [], 0
    while position < len(stored):
        record, position = _parse_central(stored, position, is_aligned)
        records.append(record)
    return records


def _parse_central(stored: bytes, position: int, is_aligned: Callable[[str], bool]) -> tuple[Record, int]:
    """The record at `position`, and where the next one begins."""
    try:
        fields = _CENTRAL.unpack_from(stored, position)
        method, crc, packed, size, name_size, extra_size = (fields[i] for i in (4, 7, 8, 9, 10, 11))
        offset = fields[16]
        name_end = position + _CENTRAL.size + name_size
        name = stored[position + _CENTRAL.size : name_end].decode()
        extra = stored[name_end : name_end + extra_size]
        wide = iter(struct.unpack_from(f"<{max(len(extra) - 4, 0) // 8}Q", extra, 4) if extra else ())
        size, packed, offset = (next(wide) if n == _LIMIT32 else n for n in (size, packed, offset))
    except (struct.error, UnicodeDecodeError, RuntimeError):  # RuntimeError: `wide` ran out
        raise FramingError("has a damaged directory") from None
    if method not in (_STORED, _DEFLATED):
        raise FramingError(f"holds {name!r} in a compression that replay does not write")
    record = Record(name, method == _DEFLATED, crc, packed, size, offset, is_aligned(name))
    return record, name_end + extra_size


def _check_names(records: Iterable[Record]) -> None:
    seen: set[str] = set()
    for record in records:
        if (problem := name_problem(record.name)) is not None:
            raise FramingError(f"holds an entry {record.name[:80]!r}, whose name {problem}")
        if (key := folded(record.name)) in seen:
            raise FramingError(f"holds {record.name[:80]!r} twice")
        seen.add(key)


def name_problem(name: str) -> str | None:
    """Why an entry may not have this name, as a predicate ("leaves the archive"); None if it may."""
    if not name or name.endswith("/"):
        return "is no file's"
    if len(name.encode(errors="replace")) > MAX_NAME:
        return "is too long"
    if "\\" in name or any(unicodedata.category(c) in _UNSEEN for c in name):
        return "has characters that are not allowed"
    if name[0] == "/" or ":" in name or any(part in ("", ".", "..") for part in name.split("/")):
        return "leaves the archive"
    return None


def folded(name: str) -> str:
    """What two names share that some file system would take for one."""
    return unicodedata.normalize("NFC", name).casefold()


def _check_headers(read: ReadAt, records: Iterable[Record], end: int) -> None:
    """Entries follow one another without gaps up to `end`, and each local header is as it must be."""
    position = 0
    for record in records:
        if record.offset != position:
            raise FramingError(f"has a gap or an overlap before {record.name!r}")
        if not record.deflated and record.packed != record.size:
            raise FramingError(f"gives {record.name!r} two sizes")
        expected = local_header(record)
        if record.end > end:
            raise FramingError(f"is too short for {record.name!r}")
        if read(position, len(expected)) != expected:
            raise FramingError(f"has a damaged header at {record.name!r}")
        position = record.end
    if position != end:
        raise FramingError("has a gap before its directory")
