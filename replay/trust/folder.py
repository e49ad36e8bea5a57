"""The user's configuration folder, and small files in it: made whole, and refused if others may touch them.

What the files mean lives elsewhere. On Windows, permissions are the system's own affair: a profile is its user's.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from replay.errors import ReplayError

VARIABLE = "TORCH_REPLAY_CONFIG"
"""Names the folder, in place of the platform's own (`$XDG_CONFIG_HOME/torch-replay` on Linux)."""

OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def path() -> Path:
    """Where the folder is, or would be."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    import click

    return Path(click.get_app_dir("torch-replay"))


def made() -> Path:
    """The folder, made where it is not there; for nobody but the user. Raises OSError, or ReplayError as `read`."""
    found = path()
    found.parent.mkdir(parents=True, exist_ok=True)
    try:
        found.mkdir(mode=0o700)
    except FileExistsError:
        check(found, OTHERS_WRITE)
    return found


def check(path: Path, forbidden: int) -> None:
    """ReplayError unless the path is the user's own, and nobody else may do with it what `forbidden` says."""
    if os.name != "posix":
        return
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise ReplayError(
            f"{path}: it belongs to somebody else; remove it, or name another folder in {VARIABLE}"
        )
    if found.st_mode & forbidden:
        mode = stat.S_IMODE(found.st_mode)
        raise ReplayError(
            f"{path}: others may {'read or ' if forbidden & stat.S_IROTH else ''}change it (mode {mode:04o})"
        )


def read(name: str, *, forbidden: int) -> bytes | None:
    """A file's bytes; None where there is none. ReplayError if others could have touched it, or it cannot be read."""
    file = path() / name
    try:
        check(file, forbidden)
        check(file.parent, OTHERS_WRITE)
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ReplayError(f"{file}: cannot be read: {error.strerror or error}") from error


def write(name: str, data: bytes, *, replace: bool) -> bool:
    """Write a whole file that is for the user alone; false where there is one that must stay. Raises OSError."""
    folder = made()
    part = folder / f".{secrets.token_hex(8)}.tmp"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if replace:
            os.replace(part, folder / name)
        else:
            _claim(part, folder / name)
    except FileExistsError:
        return False
    finally:
        part.unlink(missing_ok=True)
    return True


def _claim(part: Path, file: Path) -> None:
    """Give a file its name unless that is taken, in one step where the file system has hard links."""
    try:
        os.link(part, file)
    except FileExistsError:
        raise
    except (OSError, AttributeError, NotImplementedError):
        if file.exists():
            raise FileExistsError(file) from None
        os.replace(part, file)
