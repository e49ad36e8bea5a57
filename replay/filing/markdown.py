"""Text of strangers in Markdown: fenced or in a code span, so that nothing in it is a link, a mention or markup."""

from __future__ import annotations

import re

from replay.report.text import clean, clean_line

_TICKS = re.compile(r"`+")
_HOMES = re.compile(r"(?:/home|/Users|[A-Za-z]:\\Users)[/\\][^/\\\s\"':]+(?=[/\\])|/root(?=/)")
"""Directories that are named after a person."""


def fence(text: str, language: str = "") -> str:
    """A code block. The fence is longer than every run of backticks inside."""
    body = clean(text).strip("\n")
    longest = max((len(run) for run in _TICKS.findall(body)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{body}\n{ticks}"


def span(text: str) -> str:
    """A code span in one line."""
    body = clean_line(text)
    longest = max((len(run) for run in _TICKS.findall(body)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if body.startswith("`") or body.endswith("`") or not body else ""
    return f"{ticks}{pad}{body}{pad}{ticks}"


def without_people(text: str) -> str:
    """Paths below a person's home directory begin with `~`."""
    return _HOMES.sub("~", text)


def shortened(text: str, limit: int) -> str:
    """At most about `limit` characters: whole lines, the middle ones left out."""
    if len(text) <= limit:
        return text
    lines = text.split("\n")
    first, last = _fitting(lines, limit // 3), _fitting(lines[::-1], limit - limit // 3)[::-1]
    return "\n".join([*first, f"... {len(lines) - len(first) - len(last)} lines left out ...", *last])


def _fitting(lines: list[str], limit: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        limit -= len(line) + 1
        if limit < 0:
            break
        kept.append(line)
    return kept
