"""A file that appears under its final name when it is complete, or not at all.

Nothing here knows what the file holds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from replay.errors import BundleError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_LINKS = {
    errno.EACCES,
    errno.EINVAL,
    errno.EMLINK,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.EXDEV,
}
"""What file systems without hard links answer: FAT, some network and container file systems."""


PAGE, PIECE = 4096, 256 << 10
"""Linux 6 takes up to ten times longer for writes of megabytes that begin at a page: pieces are small, and begin
elsewhere."""


@dataclass(frozen=True, slots=True)
class Published:
    """A file that was published, and what tells it from another one of the same name."""

    path: Path
    identity: tuple[int, ...]

    def is_there(self) -> bool:
        """Whether its path still leads to this very file, unchanged."""
        try:
            return _identity(os.stat(self.path)) == self.identity
        except OSError:
            return False


class PendingFile:
    """A temporary file beside its future name. Every method raises BundleError where the disk refuses.

    It exists from construction until `publish` or `discard`; a process that is killed in between leaves a
    `.tmp` file, and nothing under the final name.
    """

    def __init__(self, directory: Path, stem: str, suffix: str) -> None:
        if not stem or stem in (".", "..") or any(c in "/\\:" or not c.isprintable() for c in stem):
            raise ValueError(f"not the stem of a file's name: {stem!r}")
        self._directory, self._stem, self._suffix = directory, stem, suffix
        self._temporary = directory / f".{secrets.token_hex(8)}.tmp"
        self.position = 0
        with self._explained():
            directory.mkdir(parents=True, exist_ok=True)
            self._file = self._temporary.open("xb", buffering=0)

    def write(self, data: bytes | memoryview) -> None:
        """Append. Returns when the system has all bytes, which may be before the disk has them."""
        view = memoryview(data)
        with self._explained():
            while view:
                first = 64 if self.position % PAGE == 0 and len(view) > PAGE else PIECE
                written = self._file.write(view[:first]) or 0
                view = view[written:]
                self.position += written

    def overwrite(self, offset: int, data: bytes) -> None:
        """Replace bytes that were written before."""
        end = self.position
        with self._explained():
            self.position = self._file.seek(offset)
            self.write(data)
            self.position = self._file.seek(end)

    def rewind(self, offset: int) -> None:
        """Forget everything from `offset` on."""
        with self._explained():
            self._file.truncate(offset)
            self.position = self._file.seek(offset)

    def publish(self, instead_of: Published | None = None, *, durable: bool = True) -> Published:
        """Give the file, now on disk for good, the first of `stem.rec`, `stem-2.rec`, ... that is free.

        `instead_of`: it takes the place of this file in one step, unless somebody has changed that meanwhile.
        Not `durable`: it survives this process, but perhaps not a power cut.
        """
        with self._explained():
            if durable:
                os.fsync(self._file.fileno())
            identity = _identity(os.fstat(self._file.fileno()))
            self._file.close()
            if instead_of is not None and instead_of.is_there():
                path = instead_of.path
                os.replace(self._temporary, path)
            else:
                number = 1
                while not _claim(self._temporary, path := self._path(number)):
                    number += 1
        self.discard()
        if durable:
            _sync_directory(self._directory)
        return Published(path, identity)

    def discard(self) -> None:
        """Remove the temporary file, if it is there."""
        self._file.close()
        with contextlib.suppress(OSError):  # at worst a stray .tmp file remains, and there is nobody to tell
            self._temporary.unlink()

    def _path(self, number: int) -> Path:
        stem = self._stem if number == 1 else f"{self._stem}-{number}"
        return self._directory / (stem + self._suffix)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns the system's refusal into a message that says which file, what and what to do."""
        try:
            yield
        except OSError as error:
            raise BundleError(f"{self._path(1)}: cannot be written: {_advice(error)}") from error


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the directory against other processes that ask for it too, where the system can (not on Windows)."""
    try:
        import fcntl

        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
    except (ImportError, OSError):  # whatever is wrong with the directory is told when a file is written
        yield
        return
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _advice(error: OSError) -> str:
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return f"{reason}; free some space, or record to another directory"
    if error.errno in _REFUSED:
        return f"{reason}; make the directory writable, or record to another one"
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return "a file stands where its directory should be; record to another directory"
    return f"{reason}; record to another directory"


def _claim(temporary: Path, path: Path) -> bool:
    """Move `temporary` to `path`, which other processes may want too; False if something stands there.

    A hard link is atomic and never replaces. Where the file system has none, an empty file reserves the name
    until the real one replaces it.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except (OSError, AttributeError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_LINKS:
            raise
    else:
        return True
    try:
        path.open("xb").close()
    except FileExistsError:
        return False
    try:
        os.replace(temporary, path)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return True


def _sync_directory(directory: Path) -> None:
    """Make the new name survive a power cut, where directories can be synchronised (not on Windows)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
