"""What a file is that is not a bundle, for a message that says what to do with it.

Looks at first and last bytes only; unpickles and unpacks nothing.
"""

from __future__ import annotations

import codecs

from replay.bundle import layout
from replay.bundle.archive import END_SIGNATURE, LOCAL_SIGNATURE, ReadAt

_NAME_ONE = "name a .rec file that replay.record() wrote"
_HEAD = 4096
_TAIL = 64 << 10
_PACKED = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
)


def explain(path: str, read: ReadAt, size: int) -> str:
    """The message for a file of `size` bytes that does not end as a bundle does."""
    if size == 0:
        return f"{path}: the file is empty; copy or download it again, or record again"
    head = read(0, min(size, _HEAD))
    for magic, name in _PACKED:
        if head.startswith(magic):
            return f"{path}: this is a file packed with {name}, not a bundle; unpack it first"
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return (
            f"{path}: this is a pickle, as torch._dynamo's replay_record writes it, not a bundle; "
            "torch-replay opens no pickles: record again with replay.record()"
        )
    if head.startswith(b"PK"):
        return _explain_zip(path, read, size, head)
    return _explain_text(path, head) or f"{path}: this is not a bundle; {_NAME_ONE}"


def _explain_zip(path: str, read: ReadAt, size: int, head: bytes) -> str:
    if head[:4] == LOCAL_SIGNATURE and head[30:].startswith(layout.README.encode()):
        end = read(max(size - _TAIL, 0), min(size, _TAIL)).rpartition(END_SIGNATURE)[2]
        if end[16:18] == layout.COMMENT_SIZE.to_bytes(2, "little"):  # the comment's length, then the comment
            longer = len(end) > 18 + layout.COMMENT_SIZE
            fault = "has bytes behind its end" if longer else "is cut short or damaged"
            return f"{path}: the bundle {fault}; copy or download it again"
    names = _names(path)
    if names is None:
        return f"{path}: the file is cut short or damaged after {size} bytes; copy or download it again"
    if layout.MANIFEST in names:
        return f"{path}: another program has changed or repacked this bundle; use the file that replay wrote"
    if bundles := [name for name in names if name.endswith((".rec", ".rec.zip"))]:
        return f"{path}: this is an archive that contains a bundle, {bundles[0][:200]!r}; unpack it first"
    if any(name.endswith("/data.pkl") for name in names):
        return f"{path}: this is a file of torch.save, not a bundle; {_NAME_ONE}"
    return f"{path}: this is a ZIP archive, but not a bundle; {_NAME_ONE}"


def _names(path: str) -> list[str] | None:
    """What the archive lists; None if it cannot be read."""
    import zipfile  # only here: reading a bundle needs none of it

    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except Exception:  # noqa: BLE001  # zipfile raises a dozen kinds on hostile bytes; all mean the same
        return None


def _explain_text(path: str, head: bytes) -> str | None:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None
    if not all(c.isprintable() or c in "\t\n\r\f" for c in text):
        return None
    if text.startswith("version https://git-lfs"):
        return f"{path}: this is a pointer of Git LFS, not the bundle itself; fetch it with: git lfs pull"
    if text.lstrip().lower().startswith(("<!doctype html", "<html")):
        return f"{path}: this is a web page, not a bundle; download the file itself"
    return f"{path}: this is a text file, not a bundle; {_NAME_ONE}"
