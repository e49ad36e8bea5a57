"""How words on a command line become values: numbers, KEY=VALUE, a bundle's path. No option is named here.

Each function is a click type: text in, value out, an exception that names the word for what it cannot read.
"""

from __future__ import annotations

import ast
import difflib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from replay.errors import UsageError

_WORDS = {"true": True, "false": False, "none": None}


def at_least_one(text: str) -> int:
    """A whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise click.BadParameter(f"{text!r} is not a whole number of at least 1")
    return number


def seconds(text: str) -> float:
    """A time that is finite and not negative."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise click.BadParameter(f"{text!r} is not a number of seconds (0: no limit)")
    return number


def tolerance(text: str) -> float:
    """A deviation that is finite and not negative."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise click.BadParameter(f"{text!r} is not a number of at least 0, such as 1e-3")
    return number


def assignment(text: str) -> tuple[str, str]:
    """KEY=VALUE as a pair; the value may be empty, the key may not."""
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE")
    return key.strip(), value


def names(text: str) -> tuple[str, ...]:
    """Words between commas; at least one."""
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise click.BadParameter(f"{text!r} names nothing")
    return found


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers of at least 1, between commas; at least one, each once, ascending."""
    return tuple(sorted({at_least_one(word) for word in names(text)}))


def literal_assignment(text: str) -> tuple[str, Any]:
    """As `assignment`, the value read as Python writes it."""
    key, value = assignment(text)
    return key, read_literal(value)


def read_literal(text: str) -> Any:
    """A Python literal, or true, false and none in any case; any other text is itself."""
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def bundle_path(text: str) -> Path:
    """The path of an existing file. UsageError for another one, which names what was probably meant."""
    path = Path(text)
    if path.is_dir():
        raise UsageError(f"{text!r} is a directory; name one bundle in it{_list(find_bundles(path))}")
    if not path.exists():
        raise UsageError(f"no such file: {text!r}{_suggest(path)}")
    return path


def find_bundles(folder: Path) -> list[Path]:
    """The bundles in a folder, by name; none where it cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith((".rec", ".rec.zip")))
    except OSError:
        return []


def _suggest(path: Path) -> str:
    folder = path.parent if path.parent.is_dir() else Path()
    found = find_bundles(folder)
    names = {_stem(one): one for one in found}
    near = difflib.get_close_matches(_stem(path), names, n=1)
    return f"; did you mean {str(names[near[0]])!r}?" if near else _list(found)


def _stem(path: Path) -> str:
    return path.name.removesuffix(".zip").removesuffix(".rec")


def _list(found: Sequence[Path]) -> str:
    if not found:
        return ""
    shown = ", ".join(str(path) for path in found[:3])
    return f"; bundles there: {shown}" + (f" and {len(found) - 3} more" if len(found) > 3 else "")
