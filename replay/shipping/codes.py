"""Code objects: as the text of their file and a path in it, as a place in an installed file, or marshalled.

Text comes first, because every version of Python reads it. The code of a function that a library made (a
decorator's inner function) is found in the library's file here. Functions themselves are in `functions.py`.
"""

from __future__ import annotations

import marshal
import sys
from pathlib import Path as FilePath
from types import CodeType
from typing import Any

from replay import source
from replay.errors import MissingError
from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.loading import Loading, builder
from replay.shipping.modules import import_real
from replay.shipping.placeholders import Placeholder, missing_here


def reduce_code(dumping: Dumping, code: CodeType) -> Reduced:
    """As text and path; as the place in an installed file; marshalled where there is no such text."""
    values = dumping.owners.get(id(code))
    module = values.get("__name__") if values else None
    if isinstance(module, str) and values and not dumping.policy.by_value(module):
        reduced = _installed(code, module, values)
        if reduced is not None:
            return reduced
    located = _located(dumping, code, values)
    if located is not None:
        return make_code, (code.co_filename, located, source.future_flags(code))
    return make_marshalled, (tuple(sys.version_info[:2]), marshal.dumps(code), code.co_name)


def _located(dumping: Dumping, code: CodeType, values: dict[str, Any] | None) -> source.Path | None:
    """Where the code is in the file's text, which then travels; a text that is of no use travels for display."""
    rewritten = values is not None and source.is_rewritten(values)
    filename, known = code.co_filename, dumping.sources.get(code.co_filename)
    if known is not None:
        return source.locate(code, known, rewritten=rewritten)
    texts = list(source.texts(filename, values))
    for text in texts:
        path = source.locate(code, text, rewritten=rewritten)
        if path is not None:
            dumping.sources[filename] = text
            return path
    if texts:
        dumping.display.setdefault(filename, texts[0])
    return None


def _installed(code: CodeType, module: str, values: dict[str, Any]) -> Reduced | None:
    if values.get("__file__") != code.co_filename:
        return None
    for text in source.texts(code.co_filename, values):
        path = source.locate(code, text)
        if path is not None:
            return make_installed, (module, path, source.outline(code))
    return None


@builder
def make_code(loading: Loading, filename: str, path: source.Path, flags: int) -> Any:
    """A code object out of a recorded text."""
    try:
        return source.extract(loading.sources[filename], filename, path, flags)
    except MissingError as error:
        return missing_here(loading, f"{filename}:{path[-1][0]}", "function", str(error))


@builder
def make_installed(loading: Loading, module: str, path: source.Path, outline: Any) -> Any:
    """A function inside an installed file, found by its name and its arguments."""
    name = f"{module}.{'.'.join(step[0] for step in path)}"
    found = import_real(loading, module)
    if isinstance(found, Placeholder):
        return found
    try:
        filename = found.__file__
        text = FilePath(filename).read_text(encoding="utf-8")
        return source.extract_similar(text, filename, path, outline)
    except (MissingError, OSError, UnicodeError, SyntaxError) as error:
        return missing_here(loading, name, "function", str(error))


@builder
def make_marshalled(loading: Loading, version: tuple[int, int], data: bytes, name: str) -> Any:
    """A code object from bytecode, which another version of Python cannot read."""
    if version == tuple(sys.version_info[:2]):
        return marshal.loads(data)
    recorded, here = ".".join(map(str, version)), ".".join(map(str, sys.version_info[:2]))
    reason = (
        f"it was recorded as bytecode of Python {recorded}, and this is {here}; replay with Python {recorded}"
    )
    return missing_here(loading, name, "function", reason)
