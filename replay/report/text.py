"""Untrusted text made safe to show, and short forms of values, numbers and messages.

Whatever comes out of a bundle passes through `clean` before it reaches a terminal. Nothing here knows of
consoles, colours or bundles.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

# C0 and C1 controls but newline, DEL, line separators, marks that reorder text, lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)

_BACKEND_RAISED = re.compile(r"^backend=.* raised:$")

_TAILS = (
    "from user code:",
    "Set TORCHDYNAMO_VERBOSE=1",
    "Set TORCH_LOGS=",
    "For even more developer context",
    "You can suppress this exception",
    "The above exception was the direct cause",
)
"""How torch's own advice begins; a reader of a report has it in better form beside the message."""


def clean(text: str) -> str:
    """The text, tabs expanded and every other control, reordering mark and lone surrogate escaped.

    Newlines stay. The result holds no terminal escape and can be encoded as UTF-8.
    """
    text = text.replace("\r\n", "\n").expandtabs(4)
    return text.translate(_escapes()) if _UNSAFE.search(text) else text


def clean_line(text: str) -> str:
    """As `clean`, and newlines are escaped too: the result is one line."""
    return clean(text).replace("\n", "\\n")


@functools.cache
def _escapes() -> dict[int, str]:
    """Each unsafe character as Python writes it: a table, as a function called for each takes ten times longer."""
    unsafe = (code for code in range(0x10000) if _UNSAFE.match(chr(code)))
    return {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in unsafe}


def shorten(text: str, width: int) -> str:
    """One line of at most `width` characters; three dots stand for what was cut."""
    line = clean_line(text)
    return line if len(line) <= width else line[: width - 3] + "..."


def show_value(value: Any, width: int = 60) -> str:
    """A plain value of a manifest as Python writes it, in one line; bytes as their length."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{show_value(k, width)}: {show_value(v, width)}" for k, v in value.items())
        return shorten("{" + inside + "}", width)
    if isinstance(value, (list, tuple)):
        return shorten("[" + ", ".join(show_value(item, width) for item in value) + "]", width)
    return shorten(repr(value), width)


def show_size(count: int) -> str:
    """Bytes for people: 512 B, 1.5 KB, 2.0 GB; a KB is 1024 bytes."""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"


def show_seconds(seconds: float) -> str:
    """Seconds for people: 0.003 s, 1.25 s, 75.2 s."""
    digits = 3 if seconds < 0.1 else 2 if seconds < 10 else 1
    return f"{seconds:.{digits}f} s"


def show_tuple(numbers: Iterable[int]) -> str:
    """A shape: [2, 3]."""
    return "[" + ", ".join(str(number) for number in numbers) + "]"


def count(number: int, word: str) -> str:
    """A number and its noun: 1 file, 2 files."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def body(message: str) -> list[str]:
    """The lines of an error message that speak of the error; torch's advice after them is left out."""
    lines = clean(message).strip("\n").split("\n")
    for position, line in enumerate(lines):
        if position and line.strip().startswith(_TAILS):
            lines = lines[:position]
            break
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def headline(message: str) -> str:
    """The line of an error message that says most; empty where there is no message.

    The first line, but for wrappers: the line below "backend='x' raised:", and a C++ compiler's first error.
    """
    lines = [line.strip() for line in body(message) if line.strip()]
    if not lines:
        return ""
    if lines[0].endswith("C++ compile error") or "C++ compile error" in lines[:2]:
        return next((line for line in lines if " error: " in line), lines[0])
    if _BACKEND_RAISED.match(lines[0]) and len(lines) > 1:
        return headline("\n".join(lines[1:]))
    return lines[0]


def short_type(name: str) -> str:
    """The class's own name: "Unsupported" of "torch._dynamo.exc.Unsupported"."""
    return name.rpartition(".")[2]
