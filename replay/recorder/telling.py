"""Say where a bundle is: on the exception, in the log, as a warning. And read what was said before."""

from __future__ import annotations

import logging
import shlex
import sys
import warnings
from pathlib import Path
from types import FrameType

from replay.errors import RecordingWarning
from replay.recorder import regrets
from replay.recorder.happenings import Happening
from replay.torch_adapter import hooks

_NOTE = "replay: recorded "
"""How the note on an exception begins."""

log = logging.getLogger("replay")


def tell(attempt: hooks.Attempt, happening: Happening, path: Path) -> None:
    """Say where the bundle is: on the exception, and in the log where that does not reach the caller."""
    command = f"python -m replay {shlex.quote(str(path))}"
    note = f"{_NOTE}{attempt.code.co_name} in {path}\nreplay: to replay it: {command}"
    failed = happening.event == "failure"
    noted = failed and (
        any(f" in {path}\n" in one for one in _notes(attempt.error)) or _add_note(attempt.error, note)
    )
    if attempt.fate != "raised" or not noted:
        what = happening.error.stage if happening.error is not None else happening.event
        log.warning("recorded %s of %s (%s); replay it with: %s", what, attempt.code.co_name, path, command)


def tell_regrets(path: Path) -> None:
    """Say once what in a new bundle a person may not want to send; must not raise."""
    try:
        found = regrets.regrets_of(path)
    except Exception as error:  # noqa: BLE001 - the bundle is written; that nobody looked through it changes no program
        warn(f"replay could not look through {path} for secrets: {type(error).__name__}: {error}")
        return
    if found:
        log.warning("%s", found)


def is_recorded(error: BaseException) -> bool:
    """Whether the error, or one that it was raised from, has a bundle already."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if any(note.startswith(_NOTE) for note in _notes(link)):
            return True
        seen.add(id(link))
        link = link.__cause__ or link.__context__
    return False


def written_by_another(error: BaseException | None, directory: Path) -> Path | None:
    """The bundle that a recorder of an inner block wrote for this very exception into the same directory."""
    for note in _notes(error):
        first = note.splitlines()[0] if note else ""
        if first.startswith(_NOTE) and " in " in first:
            path = Path(first.split(" in ", 1)[1])
            if path.parent.resolve() == directory.resolve() and path.exists():
                return path
    return None


def warn(message: str) -> None:
    """A RecordingWarning, whatever the program made of warnings."""
    try:
        warnings.warn(message, RecordingWarning, stacklevel=_users_level())
    except Exception:  # noqa: BLE001 - the user turned warnings into errors: those must not come from us
        print(f"RecordingWarning: {message}", file=sys.stderr)  # noqa: T201 - the last way to be heard


def _users_level() -> int:
    """How far up the stack the program's own code is: the first frame that is neither ours nor torch's."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in (
            "replay",
            "torch",
            "contextlib",
        ):
            return level
        frame, level = frame.f_back, level + 1
    return 2


def _notes(error: BaseException | None) -> list[str]:
    notes = getattr(error, "__notes__", None)
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def _add_note(error: BaseException | None, note: str) -> bool:
    """Whether the exception took the note and Python will print it."""
    try:
        add = getattr(error, "add_note", None)
        if add is not None:
            add(note)
            return True
        error.__notes__ = [*_notes(error), note]  # type: ignore[union-attr]
    except Exception:  # noqa: BLE001 - a frozen exception, or one with odd notes of its own
        return False
    return False  # Python 3.10 prints no notes
