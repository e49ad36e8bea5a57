"""Directories that the user has said to trust: bundles in them are replayed at once, whoever made them."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from replay.errors import ReplayError, UsageError
from replay.trust import folder

NAME = "trusted.json"


@dataclass(frozen=True, slots=True)
class Place:
    """A trusted directory."""

    path: Path  # absolute, without links
    there: bool  # whether it is a directory now


def trusted_places() -> tuple[Place, ...]:
    """All of them, in the order in which they were added. ReplayError if others could have changed the list."""
    return tuple(Place(path, path.is_dir()) for path in _read())


def vouch_for(directory: str | os.PathLike[str]) -> bool:
    """Trust the bundles in a directory and below it, now and later; false if they were trusted already.

    UsageError for what is no directory, and for one that everybody may write to. ReplayError if the list cannot be
    kept.
    """
    path = Path(directory).resolve()
    if not path.is_dir():
        raise UsageError(f"{os.fspath(directory)!r} is no directory; name one that holds bundles")
    if os.name == "posix" and path.stat().st_mode & stat.S_IWOTH:
        raise UsageError(f"{path}: everybody may put bundles there; trust a directory of your own")
    known = _read()
    if path in known:
        return False
    _write([*known, path])
    return True


def forget(directory: str | os.PathLike[str]) -> None:
    """Trust a directory no more. UsageError if it is none that was added."""
    path, known = Path(directory).resolve(), _read()
    if path not in known:
        raise UsageError(f"{path}: it was not trusted; --list shows what is")
    _write([one for one in known if one != path])


def place_of(file: str | os.PathLike[str]) -> Path | None:
    """The trusted directory that a file really lies in, links followed. ReplayError as `trusted_places`."""
    path = Path(file).resolve()
    return next((one for one in _read() if path.is_relative_to(one)), None)


def _read() -> list[Path]:
    data = folder.read(NAME, forbidden=folder.OTHERS_WRITE)
    try:
        found = [] if data is None else json.loads(data)
        if not (isinstance(found, list) and all(isinstance(one, str) for one in found)):
            raise ValueError("not a list of paths")
    except ValueError as error:
        raise ReplayError(f"{folder.path() / NAME}: it is damaged ({error}); remove it") from None
    return [Path(one) for one in found]


def _write(paths: list[Path]) -> None:
    try:
        text = json.dumps([str(one) for one in paths], indent=2) + "\n"
        folder.write(NAME, text.encode(), replace=True)
    except OSError as error:
        raise ReplayError(f"{folder.path() / NAME}: cannot be written: {error.strerror or error}") from error
