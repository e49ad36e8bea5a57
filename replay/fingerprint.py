"""What makes two failures the same.

A fingerprint is `<core>-<detail>`, two short digests.

The **core** is what a failure keeps on another Python, another torch, another machine and under another
backend: the stage, the exception's type and the type that it wraps, torch's name for the graph break, and the
innermost line of the user's code (function and text, no path and no line number).
The **detail** is the title of the message and the innermost function of torch. It tells apart two failures of
one line, but torch rewords messages and moves functions, so it counts only within one torch version.

Nothing here knows exceptions: `replay.torch_adapter.failures` takes those apart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from replay.recording import UserFrame

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[/\\][\w.@+ ~-]+)+[/\\]([\w.@+~-]+)")
_NUMBER = re.compile(r"\d+")
_HASH = re.compile(r"\bc[a-z2-7]{40,}(?=[.\W])")
"""Inductor names a generated file by a hash of its content and of the directories in it."""
_COMMAND = re.compile(r"^(?:\S*(?:g\+\+|gcc|clang\+?\+?|icx|cl))\s.*\s-o\s")
_CARETS = re.compile(r"^[ ~^]+$")


def compute(
    *,
    stage: str,
    type: str,  # noqa: A002 - the word of the contract
    inner_type: str | None = None,
    gb_type: str | None = None,
    user_frames: Sequence[UserFrame] = (),
    title: str = "",
    raised_in: str | None = None,
) -> str:
    """The fingerprint of a failure.

    `user_frames`: outermost first; only the last counts. `title`: the message's first line, of the wrapped
    exception where there is one. `raised_in`: the innermost torch function, "torch/_dynamo/exc.py:unimplemented".
    """
    last = user_frames[-1] if user_frames else None
    where = (last.function, last.code) if last else ("", "")
    core = _digest(stage, type, inner_type or "", gb_type or "", *where)
    return f"{core}-{_digest(normalise(title), raised_in or '')}"


def same(recorded: str, seen: str, *, same_torch: bool) -> bool:
    """Whether two fingerprints mean the same failure; the detail counts only within one torch version."""
    if same_torch:
        return recorded == seen
    return core(recorded) == core(seen)


def core(fingerprint: str) -> str:
    """The part that holds across torch versions."""
    return fingerprint.partition("-")[0]


def normalise(text: str) -> str:
    """Text without what changes from run to run: addresses, directories, numbers, white space."""
    text = _ADDRESS.sub("0x", text)
    text = _PATH.sub(r"\1", text)
    text = _NUMBER.sub("N", text)
    return " ".join(text.split())


def same_text(recorded: str, seen: str) -> bool:
    """Whether two messages read the same to a person.

    Addresses, the directories of files, the hashes that name generated files, the command line of a C++ compiler
    (its flags are the machine's) and the caret lines that only Python 3.11 and later print do not count.
    """
    return _comparable(recorded) == _comparable(seen)


def _comparable(text: str) -> list[str]:
    for pattern, replacement in ((_ADDRESS, "0x"), (_PATH, r"\1"), (_HASH, "generated")):
        text = pattern.sub(replacement, text)
    lines = (line.rstrip() for line in text.splitlines())
    return [line for line in lines if line and not _CARETS.match(line) and not _COMMAND.match(line)]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
