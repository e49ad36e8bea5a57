"""What a bundle holds where: names of the entries, limits, digests.

Only constants and pure functions of names and bytes; no files, no ZIP.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Protocol

import xxhash

README, MANIFEST, VALUES = "README.txt", "manifest.msgpack", "values.pkl"
SINGLE = (README, MANIFEST, VALUES)
SOURCES, BLOBS = "source/", "blobs/"

MAX_DEFLATED = 16 << 20  # bytes of contents; longer entries are stored as they are
MAX_RATIO = 100  # contents to packed bytes; entries that shrink further are stored as they are
MAX_MANIFEST = 16 << 20
MAX_PART = 80  # characters of one part of a source's name

README_TEXT = """\
This file is a bundle of torch-replay: one frame that torch.compile was recorded on, mostly because it failed,
with all that is needed to compile just that frame again, on another machine, without the program around it.

    pip install torch-replay
    python -m replay inspect BUNDLE.rec    shows what is inside; runs no code from the bundle
    python -m replay BUNDLE.rec            replays the frame; runs code from the bundle, so trust its author

The file is a ZIP archive. Do not repack it: replay opens only archives as it wrote them.

    manifest.msgpack   the failure, the frame, its inputs, configuration, environment; the entries' digests
    source/            the text of the files that the frame comes from
    values.pkl         globals, closure and arguments without tensors' bytes; the only entry that can run code
    blobs/             the bytes of tensors, raw, aligned to 64 bytes
"""

_COMMENT = re.compile(rb"torch-replay bundle; format (\d{4}); manifest sha256 ([0-9a-f]{64})")


class Hasher(Protocol):
    """What hashlib and xxhash have in common."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take in more bytes."""

    def hexdigest(self) -> str:
        """The digest of all bytes so far."""


def comment(version: int, manifest: bytes) -> bytes:
    """The archive's comment: the format, and the digest of the one entry that the manifest cannot list."""
    return b"torch-replay bundle; format %04d; manifest sha256 %s" % (
        version,
        hashlib.sha256(manifest).hexdigest().encode(),
    )


COMMENT_SIZE = len(comment(0, b""))
"""All versions' comments have this length, so that the version can be read before anything else."""


def read_comment(tail: bytes) -> tuple[int, str] | None:
    """Format and manifest digest from the file's last COMMENT_SIZE bytes; None if this is no such comment."""
    match = _COMMENT.fullmatch(tail)
    return (int(match[1]), match[2].decode()) if match else None


def is_blob(name: str) -> bool:
    """Whether the entry holds a tensor storage's raw bytes."""
    return name.startswith(BLOBS)


def digest_name(entry: str) -> str:
    """The algorithm for an entry: cryptographic for what can hold code or text, fast for tensors' bytes."""
    return "xxh3" if is_blob(entry) else "sha256"


def new_hasher(entry: str) -> Hasher:
    """A fresh hasher of the algorithm for this entry."""
    return xxhash.xxh3_128() if is_blob(entry) else hashlib.sha256()


def digest(entry: str, data: bytes | memoryview) -> str:
    """`algorithm:hex` of an entry's contents."""
    hasher = new_hasher(entry)
    hasher.update(data)
    return f"{digest_name(entry)}:{hasher.hexdigest()}"


def blob_name(key: str) -> str:
    """The entry for a blob. Raises ValueError unless the key is of letters, digits and `_.-`."""
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}", key):
        raise ValueError(f"not a blob's key: {key!r}")
    return BLOBS + key


def source_name(filename: str, is_taken: Callable[[str], bool]) -> str:
    """A readable entry name for the file that Python calls `filename`: its last three parts, made safe.

    `/home/ann/project/nets/block.py` is `source/project/nets/block.py`, `<ipython-input-3>` is
    `source/ipython-input-3`. Where that is taken, a numbered folder keeps them apart, so that the file's own
    name stays: `source/2/project/nets/block.py`.
    """
    parts = [safe for part in re.split(r"[/\\]", filename) if (safe := _safe_part(part))]
    name = "/".join(parts[-3:]) or "unnamed"
    entry, number = SOURCES + name, 1
    while is_taken(entry):
        number += 1
        entry = f"{SOURCES}{number}/{name}"
    return entry


def _safe_part(part: str) -> str:
    """One part of a path in characters that every file system takes; empty for "..", drives and the like."""
    if re.fullmatch(r"[A-Za-z]:|\.*", part):
        return ""
    safe = re.sub(r"[^\w.+-]", "_", part)
    if part.startswith("<"):
        safe = safe.strip("_")
    stem, dot, suffix = safe.rpartition(".")
    if len(safe) > MAX_PART:
        safe = safe[:MAX_PART] if len(suffix) > 8 or not dot else stem[: MAX_PART - 9] + dot + suffix
    safe = safe.rstrip(".")
    if re.fullmatch(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?", safe):
        safe = "_" + safe
    return safe
