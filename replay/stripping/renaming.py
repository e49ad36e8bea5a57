"""Other words for what names a person or a machine: directories, user and host names, e-mail addresses.

One renaming serves manifest, sources and values, so that what was equal stays equal. Nothing here opens a bundle.
"""

from __future__ import annotations

import getpass
import os.path
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

from replay import giveaways

ROOT, USER, HOST, MAIL = "/stripped", giveaways.NOBODY, "host", "user@example.invalid"
_COMMON = frozenset({USER, "root", "runner", "ubuntu", "nobody", "admin", "jovyan", "vscode", "circleci"})
"""Users that are no persons: their names stay."""
_LONG_ENOUGH = 4  # letters of a name that is replaced outside of paths as well


@dataclass(slots=True)
class Renaming:
    """What becomes of texts. Callable; counts what it replaced, each text once."""

    directories: list[tuple[str, str]] = field(default_factory=list)  # the longest first
    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    replaced: set[str] = field(default_factory=set)

    def __call__(self, text: str) -> str:
        """The text with other words; in code, `in_code` is the right one."""
        made = self.in_code(text)
        if made.isidentifier():  # a name that a program uses: not to be told from a person's
            return made
        for names, word in ((self.users, USER), (self.hosts, HOST)):
            for name in names:
                made = self._substituted(rf"(?<!\w){re.escape(name)}(?!\w)", word, made)
        return made

    def in_code(self, text: str) -> str:
        """Only what cannot be an identifier: directories and e-mail addresses."""
        made = text
        for old, new in self.directories:
            made = self._substituted(rf"(?<![\w/]){re.escape(old)}(?![\w-])", new, made)
        made = giveaways.HOME.sub(self._renamed_home, made)
        return giveaways.MAIL.sub(self._renamed_mail, made)

    def _substituted(self, pattern: str, word: str, text: str) -> str:
        def put(match: re.Match[str]) -> str:
            self.replaced.add(match[0])
            return word

        return re.sub(pattern, put, text)

    def _renamed_home(self, match: re.Match[str]) -> str:
        if match[1] in _COMMON:
            return match[0]
        self.replaced.add(match[1])
        return match[0][: match.start(1) - match.start(0)] + USER

    def _renamed_mail(self, match: re.Match[str]) -> str:
        if match[0] == MAIL:
            return MAIL
        self.replaced.add(match[0])
        return MAIL


def renaming_for(files: Iterable[str], texts: Iterable[str]) -> Renaming:
    """The renaming for sources of these names, and all texts of a bundle."""
    users = {match[1] for text in texts for match in giveaways.HOME.finditer(text)}
    users.update(_local(getpass.getuser))
    hosts = set(_local(socket.gethostname)) - {"localhost"}
    return Renaming(
        _directories(files),
        tuple(sorted(name for name in users - _COMMON if len(name) >= _LONG_ENOUGH)),
        tuple(sorted(name for name in hosts if len(name) >= _LONG_ENOUGH)),
    )


def _local(ask: object) -> Iterable[str]:
    try:
        return [ask()]  # type: ignore[operator]
    except (KeyError, OSError, ImportError):  # nobody, as in some containers
        return []


def _directories(files: Iterable[str]) -> list[tuple[str, str]]:
    """The directory that all of the user's files share becomes ROOT; one that is away from it a numbered one."""
    named = {os.path.dirname(name) for name in files if name.startswith("/")} - {"/"}
    folders = sorted(one for one in named if not f"{one}/".startswith(f"{ROOT}/"))
    if not folders:
        return []
    shared = os.path.commonpath(folders)
    if shared.count("/") >= 2:  # more than /home
        return [(shared, ROOT)]
    pairs = [(folder, f"{ROOT}/{number}") for number, folder in enumerate(folders, start=1)]
    return sorted(pairs, key=lambda pair: -len(pair[0]))
