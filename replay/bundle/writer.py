"""Writing a bundle: entries one after another, the manifest last, the name at the very end."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from replay.bundle import layout
from replay.bundle.archive import MAX_ENTRIES, Record, directory, end_records, folded, local_header
from replay.bundle.manifest import FORMAT, encode
from replay.bundle.publishing import PendingFile, Published
from replay.bundle.references import find_broken_reference
from replay.recording import Entry, Manifest

_SLICE = 1 << 20  # bytes that are hashed at once
_OVERLAP = 256 << 10  # below this, a second thread costs more than it saves


class BundleWriter:
    """A bundle while it is being written: a temporary file in `directory`, which is created if needed.

    A context manager: leaving it without `commit` removes the file. Methods raise BundleError where the disk
    is full or the directory refuses, and ValueError for what a caller should not ask; a method that raised
    has added nothing, so that a recorder can leave out what it could not read and go on. For one thread.
    Not `durable`: commit does not wait for the disk; the bundle survives this process, perhaps not a power cut.
    `sign`: makes the seal, see `manifest.encode`; only who has made all of the content may seal it.
    """

    def __init__(
        self, directory: Path, stem: str, *, durable: bool = True, sign: Callable[[bytes], str] | None = None
    ) -> None:
        self._file = PendingFile(directory, stem, ".rec")
        self._durable = durable
        self._sign = sign
        self._pool: ThreadPoolExecutor | None = None  # of one thread, from the first large blob on
        self._alone = False  # threads are refused
        self._records: list[Record] = []
        self._entries: dict[str, Entry] = {}
        self._files: set[str] = set()  # folded names of entries,
        self._folders: set[str] = set()  # and of the folders that they are in
        self._sources: dict[tuple[str, str], str] = {}
        try:
            self._add(layout.README, layout.README_TEXT.encode(), deflate=False)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the temporary file, unless it has become a bundle."""
        if self._pool is not None:
            self._pool.shutdown()
        self._file.discard()

    def add_source(self, filename: str, text: str) -> str:
        """Keep a file's text; returns the entry's name, as `Manifest.sources` wants it.

        `filename` is what code objects call the file. The same file with the same text is kept once.
        """
        if (known := self._sources.get((filename, text))) is not None:
            return known
        entry = layout.source_name(filename, self._is_taken)
        self._add(entry, text.encode("utf-8", "backslashreplace"))
        self._sources[filename, text] = entry
        return entry

    def add_values(self, data: bytes) -> None:
        """Keep the pickled object graph, once."""
        self._add(layout.VALUES, data)

    def add_blob(self, key: str, nbytes: int, chunks: Iterable[memoryview | bytes]) -> str:
        """Keep `nbytes` raw bytes, which arrive in `chunks` of any size; returns the entry's name.

        Streams: no chunk is copied or kept, and a chunk's memory may be reused for the next one. Raises
        ValueError if the chunks' total is not `nbytes`, or the key is taken or not of `[A-Za-z0-9_.-]`.
        """
        record = self._new_record(Record(layout.blob_name(key), False, 0, nbytes, nbytes, 0, aligned=True))
        sums = _Sums(record.name)
        try:
            self._file.write(local_header(record))
            for chunk in chunks:
                self._stream(memoryview(chunk), sums, nbytes)
            if sums.size != nbytes:
                raise ValueError(f"blob {key!r}: {sums.size} bytes came, {nbytes} were announced")
            record = dataclasses.replace(record, crc=sums.crc)
            self._file.overwrite(record.offset, local_header(record))
        except BaseException:
            self._file.rewind(record.offset)
            raise
        self._register(record, sums.digest())
        return record.name

    def commit(self, manifest: Manifest) -> Path:
        """Complete the bundle and publish it as `stem.rec`, or `stem-2.rec`, ...; returns the path.

        Raises as `publish`.
        """
        return self.publish(manifest).path

    def publish(self, manifest: Manifest, instead_of: Published | None = None) -> Published:
        """As `commit`; with `instead_of`, in the place of a bundle that was published before and is unchanged.

        Fills `manifest.entries`. Raises ValueError or TypeError, writing nothing, for a manifest that refers
        to what is not there or holds what is not plain.
        """
        manifest = dataclasses.replace(manifest, entries=dict(self._entries))
        if (broken := find_broken_reference(manifest)) is not None:
            raise ValueError(f"manifest: {broken}")
        data = encode(manifest, self._sign)
        if len(data) > layout.MAX_MANIFEST:
            raise ValueError(f"manifest: {len(data)} bytes are more than {layout.MAX_MANIFEST}")
        self._add(layout.MANIFEST, data)
        listing, offset = directory(self._records), self._file.position
        self._file.write(listing)
        self._file.write(end_records(len(self._records), len(listing), offset, layout.comment(FORMAT, data)))
        return self._file.publish(instead_of, durable=self._durable)

    def _add(self, name: str, data: bytes, *, deflate: bool = True) -> None:
        packed = _deflate(data) if deflate else None
        contents = data if packed is None else packed
        crc, deflated = zlib.crc32(data), packed is not None
        record = self._new_record(Record(name, deflated, crc, len(contents), len(data), 0))
        try:
            self._file.write(local_header(record))
            self._file.write(contents)
        except BaseException:
            self._file.rewind(record.offset)
            raise
        self._register(record, layout.digest(name, data))

    def _new_record(self, record: Record) -> Record:
        """`record` at the current position. Raises ValueError if there is no room for it."""
        if self._is_taken(record.name):
            raise ValueError(f"the bundle has {record.name!r} already")
        if len(self._records) >= MAX_ENTRIES - 1 and record.name != layout.MANIFEST:
            raise ValueError(f"a bundle has at most {MAX_ENTRIES} entries")
        return dataclasses.replace(record, offset=self._file.position)

    def _register(self, record: Record, digest: str) -> None:
        self._records.append(record)
        self._entries[record.name] = Entry(record.size, digest)
        self._files.add(folded(record.name))
        self._folders.update(_folders(folded(record.name)))

    def _is_taken(self, name: str) -> bool:
        """Whether a file system could take `name` for an entry, or for a folder of one, or the reverse."""
        name = folded(name)
        return name in self._files or name in self._folders or not self._files.isdisjoint(_folders(name))

    def _stream(self, chunk: memoryview, sums: _Sums, limit: int) -> None:
        """Append a chunk, hashing it meanwhile: zlib, xxhash and the system all let go of Python's lock."""
        if chunk.nbytes == 0:
            return
        chunk = chunk.cast("B")
        if sums.size + len(chunk) > limit:
            raise ValueError(f"{sums.entry}: more bytes came than the {limit} that were announced")
        if self._alone or len(chunk) < _OVERLAP:
            self._write_alone(chunk, sums)
        else:
            self._write_beside(chunk, sums)

    def _write_alone(self, piece: memoryview, sums: _Sums) -> None:
        sums.update(piece)
        self._file.write(piece)

    def _write_beside(self, piece: memoryview, sums: _Sums) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "replay-sums")
        try:
            pending = self._pool.submit(sums.update, piece)
        except RuntimeError:  # no more threads: the interpreter is exiting, or the system has a limit
            self._alone = True
            return self._write_alone(piece, sums)
        try:
            self._file.write(piece)
        finally:
            pending.result()  # the caller may reuse the memory


class _Sums:
    """Checksum and digest of an entry whose bytes arrive one after another."""

    def __init__(self, entry: str) -> None:
        self.entry = entry
        self.crc = 0
        self.size = 0
        self._hasher = layout.new_hasher(entry)

    def update(self, data: memoryview) -> None:
        for start in range(
            0, len(data), _SLICE
        ):  # so that the second reads what the first has left in the cache
            piece = data[start : start + _SLICE]
            self.crc = zlib.crc32(piece, self.crc)
            self._hasher.update(piece)
        self.size += len(data)

    def digest(self) -> str:
        return f"{layout.digest_name(self.entry)}:{self._hasher.hexdigest()}"


def _deflate(data: bytes) -> bytes | None:
    """`data` deflated; None where it must be stored.

    That is: it is long, or does not shrink, or shrinks so much that the reader would take it for a bomb.
    """
    if len(data) > layout.MAX_DEFLATED:
        return None
    compressor = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = compressor.compress(data) + compressor.flush()
    return packed if len(packed) < len(data) <= layout.MAX_RATIO * len(packed) else None


def _folders(name: str) -> list[str]:
    return [name[:index] for index, character in enumerate(name) if character == "/"]
