"""Reading a bundle: everything is checked before it is believed, and blobs are mapped, not copied."""

from __future__ import annotations

import hashlib
import io
import mmap
import os
import stat
import weakref
import zlib
from collections.abc import Iterator, Mapping

from replay.bundle import layout
from replay.bundle.archive import FramingError, Record, read_directory
from replay.bundle.manifest import check_format, decode, plain_text, sealed
from replay.bundle.recognition import explain
from replay.bundle.references import find_broken_reference
from replay.errors import BundleError, MissingError
from replay.recording import Entry, Manifest

_SLICE = 4 << 20  # bytes that are read at a time
_AGAIN = "copy or download it again, or record again"


def load(path: str | os.PathLike[str]) -> Bundle:
    """Open a bundle, whatever its name. Runs no code from it and imports no torch.

    Checks everything but the bytes of blobs: those are read, and checked, when they are asked for. Raises
    BundleError with one line that says what is wrong with the file and what to do.
    """
    file = _File(os.fspath(path))
    try:
        records, data, manifest = _open(file)
        bundle = Bundle(file, records, manifest, data)
        for name in records:
            if not layout.is_blob(name):
                bundle.check(name)
    except BaseException:
        file.close()
        raise
    return bundle


class Bundle:
    """An open bundle; `load` makes it. A context manager; a forgotten one closes itself. For one thread.

    `path` is the name that it was opened by, `size` the file's in bytes, `digest` the sha256 of its manifest, which
    holds those of all code. `seal` was made by the recording user's key for `sealed`; both may be empty.

    Methods raise BundleError where bytes are not those that were recorded, and MissingError where the bundle lacks what
    is asked for.
    """

    def __init__(self, file: _File, records: Mapping[str, Record], manifest: Manifest, data: bytes) -> None:
        self.path = file.path
        self.size = file.size
        self.manifest = manifest
        self.seal = manifest.seal
        self.sealed = sealed(data, manifest)
        self.digest = hashlib.sha256(data).hexdigest()
        self._file = file
        self._records = records
        self._map: mmap.mmap | None = None
        self._handed_out: set[str] = set()  # blobs of which a caller has a writable view in the present map
        self._verified: set[str] = set()

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Views that `blob` returned stay valid."""
        self._map = None  # unmapped when the last view goes
        self._file.close()

    def source(self, entry: str) -> str:
        """The text of a `source/` entry."""
        try:
            return self._contents(entry).decode()
        except UnicodeDecodeError:
            raise BundleError(f"{self.path}: {entry!r} is not UTF-8; {_AGAIN}") from None

    def source_for(self, filename: str) -> str | None:
        """The text of the file that code objects call `filename`; None if the bundle does not have it."""
        entry = self.manifest.sources.get(plain_text(filename))
        return None if entry is None else self.source(entry)

    def values(self) -> bytes:
        """The pickled object graph. Unpickling it runs the code that its author put there."""
        return self._contents(layout.VALUES)

    def blob(self, entry: str, *, verify: bool = True) -> memoryview:
        """A blob's bytes, mapped from the file and aligned to 64 bytes.

        The view is writable and private: neither the file nor another call's view sees a change. It stays
        valid after `close`. The first call for an entry compares the bytes with their digest, if `verify`.
        Whoever shortens the file meanwhile kills this process (SIGBUS), as with any mapped file.
        """
        record = self._record(entry)
        if record.size == 0:
            return memoryview(bytearray())
        view = memoryview(self._mapping(entry))[record.data_offset : record.end]
        if verify and entry not in self._verified:
            if layout.digest(entry, view) != self.manifest.entries[entry].digest:
                raise _damaged(self.path, entry)
            self._verified.add(entry)
        return view

    def verify(self) -> None:
        """Check every byte of every entry, blobs too, in constant memory."""
        for name in self._records:
            self.check(name)

    def check(self, entry: str) -> None:
        """Check size, checksum and digest of one entry."""
        record = self._record(entry)
        hasher, crc, size = layout.new_hasher(entry), 0, 0
        for piece in self._pieces(record):
            hasher.update(piece)
            crc = zlib.crc32(piece, crc)
            size += len(piece)
        digest = f"{layout.digest_name(entry)}:{hasher.hexdigest()}"
        known = self.manifest.entries.get(entry, Entry(size, digest))  # it knows all but itself
        if (size, digest, crc) != (known.size, known.digest, record.crc):
            raise _damaged(self.path, entry)

    def _contents(self, entry: str) -> bytes:
        self.check(entry)
        return b"".join(self._pieces(self._record(entry)))

    def _pieces(self, record: Record) -> Iterator[bytes]:
        return _pieces(self._file, record)

    def _record(self, entry: str) -> Record:
        if (record := self._records.get(entry)) is None:
            raise MissingError(f"{self.path}: the bundle has no {entry!r}; record again")
        return record

    def _mapping(self, entry: str) -> mmap.mmap:
        """A private map of the whole file in which nobody has a view of `entry` yet.

        One map serves many blobs, as each costs a file descriptor.
        """
        if self._map is None or entry in self._handed_out:
            self._map = self._file.map()
            self._handed_out.clear()
        self._handed_out.add(entry)
        return self._map


class _File:
    """A regular file that is read at offsets; whatever the system refuses is a BundleError."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            kind = os.stat(path).st_mode  # before opening: a pipe would wait for its writer
            if stat.S_ISDIR(kind):
                raise BundleError(f"{path}: this is a directory; name one bundle in it")
            if not stat.S_ISREG(kind):
                raise BundleError(f"{path}: this is not a regular file; copy the bundle to one")
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except FileNotFoundError:
            raise BundleError(f"{path}: there is no such file; check the path") from None
        except PermissionError:
            raise BundleError(f"{path}: the file may not be read; change its permissions") from None
        except (OSError, ValueError) as error:  # ValueError: a null character in the path
            raise BundleError(f"{path}: cannot be opened: {error}; check the path") from error
        self._close = weakref.finalize(self, os.close, descriptor)  # without the warning of a forgotten file
        self._file = io.FileIO(descriptor, closefd=False)
        self.size = os.fstat(descriptor).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes."""
        if offset + size > self.size:
            raise FramingError("is too short")
        try:
            self._file.seek(offset)
            data = self._file.read(size)
        except OSError as error:
            raise BundleError(f"{self.path}: cannot be read: {error.strerror}; {_AGAIN}") from error
        if data is None or len(data) != size:
            raise BundleError(f"{self.path}: the file became shorter while it was read; {_AGAIN}")
        return data

    def map(self) -> mmap.mmap:
        try:
            return mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            advice = "free some memory, or copy it to a local disk"
            raise BundleError(f"{self.path}: cannot be mapped: {error.strerror}; {advice}") from error

    def close(self) -> None:
        self._file.close()
        self._close()


def _open(file: _File) -> tuple[dict[str, Record], bytes, Manifest]:
    """The entries, the manifest's bytes and the manifest, once framing, names, sizes and references are found right."""
    seen = None
    if file.size >= layout.COMMENT_SIZE:
        seen = layout.read_comment(file.read(file.size - layout.COMMENT_SIZE, layout.COMMENT_SIZE))
    if seen is None:
        raise BundleError(explain(file.path, file.read, file.size))
    version, digest = seen
    check_format(version, file.path)
    try:
        records = read_directory(file.read, file.size, layout.COMMENT_SIZE, layout.is_blob)
    except FramingError as error:
        raise BundleError(f"{file.path}: the bundle is damaged: its archive {error}; {_AGAIN}") from None
    known = {record.name: record for record in records}
    for record in records:
        _check_limits(file.path, record)
    if not records or records[0].name != layout.README or layout.MANIFEST not in known:
        raise BundleError(f"{file.path}: the bundle lacks {layout.README} or {layout.MANIFEST}; {_AGAIN}")
    data = _manifest_data(file, known[layout.MANIFEST], digest)
    manifest = decode(data, version, file.path)
    _check_entries(file.path, manifest, known)
    return known, data, manifest


def _check_limits(path: str, record: Record) -> None:
    """The entry has a name that the format knows, and is what the writer could have made of its contents."""
    name, packed, size = record.name, record.packed, record.size
    fault = None
    if name not in layout.SINGLE and not name.startswith((layout.SOURCES, layout.BLOBS)):
        fault = f"holds {name!r}"
    elif record.deflated and size > min(layout.MAX_DEFLATED, layout.MAX_RATIO * packed):
        fault = f"inflates {name!r} from {packed} to {size} bytes"
    elif record.deflated and layout.is_blob(name):
        fault = f"compresses {name!r}"
    elif name == layout.MANIFEST and size > layout.MAX_MANIFEST:
        fault = f"has a manifest of {size} bytes"
    if fault is not None:
        raise BundleError(f"{path}: this archive {fault}, as no bundle of replay does; do not trust it")


def _manifest_data(file: _File, record: Record, digest: str) -> bytes:
    data = b"".join(_pieces(file, record))
    if hashlib.sha256(data).hexdigest() != digest:
        raise _damaged(file.path, layout.MANIFEST)
    return data


def _check_entries(path: str, manifest: Manifest, records: Mapping[str, Record]) -> None:
    """The manifest lists what the archive holds, no more and no less, and what it refers to is there."""
    listed, present = set(manifest.entries), set(records) - {layout.MANIFEST}
    for name in sorted(listed ^ present)[:1]:
        fault = "lacks" if name in listed else "holds, unlisted,"
        raise BundleError(f"{path}: the bundle {fault} {name!r}; {_AGAIN}")
    for name, entry in manifest.entries.items():
        if records[name].size != entry.size:
            raise _damaged(path, name)
    if (broken := find_broken_reference(manifest)) is not None:
        raise BundleError(f"{path}: the bundle is damaged: {broken}; {_AGAIN}")


def _pieces(file: _File, record: Record) -> Iterator[bytes]:
    """An entry's contents, in pieces; a deflated entry is one piece, of at most the size that it declares."""
    if not record.deflated:
        for start in range(record.data_offset, record.end, _SLICE):
            yield file.read(start, min(_SLICE, record.end - start))
        return
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = inflater.decompress(file.read(record.data_offset, record.packed), record.size + 1)
    except zlib.error:
        raise _damaged(file.path, record.name) from None
    if len(data) != record.size or not inflater.eof or inflater.unused_data:
        raise _damaged(file.path, record.name)
    yield data


def _damaged(path: str, entry: str) -> BundleError:
    return BundleError(f"{path}: {entry!r} is damaged: its bytes are not those that were recorded; {_AGAIN}")
