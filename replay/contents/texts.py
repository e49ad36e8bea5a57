"""Every text in a bundle, with the place where it stands: the manifest's, the sources', the values'. Loads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from replay import opcodes
from replay.bundle import Bundle, to_plain
from replay.bundle.layout import VALUES

MOST_TEXT = 64 << 20
"""Characters of the values' texts that are looked at."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text, where it stands, and the name that it is given there, if it is one."""

    where: str  # "environment.variables.HOME", "/home/ann/x.py:12", "values.pkl, byte 120"
    text: str
    name: str = ""  # "HOME"


@dataclass(slots=True)
class ValuesRead:
    """What was met while the values' opcodes were read."""

    texts: int = 0
    text_size: int = 0  # characters
    data_size: int = 0  # bytes of byte strings
    numbers: int = 0
    unread: str = ""


def of_manifest(bundle: Bundle) -> Iterator[Text]:
    """Keys and texts of the manifest, but for digests and what stands for a session."""
    plain = to_plain(bundle.manifest)
    for name in ("entries", "signature", "seal"):
        del plain[name]
    plain["process"].pop("session", None)
    todo: list[tuple[str, str, Any]] = [("", "", plain)]
    while todo:
        where, name, value = todo.pop()
        if name == "fingerprint":
            continue
        if isinstance(value, str):
            yield Text(f"manifest {where}", value, name)
        elif isinstance(value, dict):
            for key, item in value.items():
                if where and not isinstance(item, (dict, list)):
                    yield Text(f"manifest {where}", str(key))
                todo.append((f"{where}.{key}" if where else str(key), str(key), item))
        elif isinstance(value, list):
            todo += [(f"{where}[{number}]", name, item) for number, item in enumerate(value)]


def of_sources(bundle: Bundle) -> Iterator[Text]:
    """Each line of each source."""
    for file, entry in bundle.manifest.sources.items():
        for number, line in enumerate(bundle.source(entry).splitlines(), start=1):
            yield Text(f"{file}:{number}", line)


def of_values(bundle: Bundle, read: ValuesRead) -> Iterator[Text]:
    """Each text in the values; fills `read`. One that follows a word is given that word as a name."""
    if VALUES not in bundle.manifest.entries:
        return
    before = ""
    for step in opcodes.read(bundle.values()):
        if step.kind == "end":
            read.unread = f"values.pkl: {step.subject}"
        elif step.kind == "numbers":
            read.numbers = step.subject
        elif step.kind == "text" and isinstance(step.subject, bytes):
            read.data_size += len(step.subject)
        elif step.kind == "text":
            read.texts += 1
            read.text_size += len(step.subject)
            if read.text_size <= MOST_TEXT:
                yield Text(f"values.pkl, byte {step.position}", step.subject, before)
            before = step.subject if step.subject.isidentifier() and len(step.subject) < 80 else ""
    if read.text_size > MOST_TEXT:
        read.unread = read.unread or f"values.pkl: texts after the first {MOST_TEXT >> 20} million characters"
