"""Files that a user asks for by name: whole under that name, or not there. Bundles have a way of their own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from replay.errors import UsageError


def check_place(path: Path, endings: Sequence[str], *, option: str) -> None:
    """UsageError unless the name and its directory will do; the message names the `option` that gave it."""
    if not path.name.endswith(tuple(endings)):
        raise UsageError(f"{option} {str(path)!r}: its name must end in {' or '.join(endings)}")
    if path.is_dir():
        raise UsageError(f"{option} {str(path)!r}: there is a directory of that name")
    if not path.parent.is_dir():
        raise UsageError(f"{option} {str(path)!r}: there is no directory {str(path.parent)!r}")


def write(path: Path, data: bytes, *, option: str) -> None:
    """Write a file, over one that is there, which a crash or a full disk leaves. UsageError if it cannot be written."""
    part = None
    try:
        number, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, path)
    except OSError as error:
        if part is not None:
            Path(part).unlink(missing_ok=True)
        raise UsageError(f"{option} {str(path)!r}: cannot be written: {error.strerror or error}") from error


def _umask() -> int:
    """What this process leaves out of a new file's mode; it can be read only by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
