"""A file's text and the code objects in it.

Code travels as the file's text and the code object's path in the tree of constants, so that what was recorded
under one Python is found under another. Finding it compiles the text; nothing is executed. Here is also the
only place that touches `linecache`. Pickling, globals and modules never appear here.

A path has one step for each enclosing code object: its name, its first line, and its number among the siblings
that share both. Code objects that some versions of Python make and others don't (comprehensions, generic
parameters, `__annotate__`) are not steps.
"""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import linecache
import opcode
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from replay.errors import MissingError

Step = tuple[str, int, int]
Path = tuple[Step, ...]

COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})  # inlined since Python 3.12
GENERIC_PARAMETERS = "<generic parameters of "  # PEP 695, since Python 3.12
FUTURE_FLAGS = (
    functools.reduce(
        int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
    )
    & ~0x10
)  # nested_scopes shares its bit with CO_NESTED


@dataclass(frozen=True, slots=True)
class Tree:
    """Every code object of one text."""

    by_path: dict[Path, CodeType] = field(default_factory=dict)
    by_line: dict[tuple[str, int], list[tuple[Path, CodeType]]] = field(
        default_factory=dict
    )  # name, first line


def locate(code: CodeType, text: str, *, rewritten: bool = False) -> Path | None:
    """Where `code` is in `text`; None if the text does not hold this very code (it was edited since, say).

    `rewritten` admits a function whose assertions pytest has rewritten (see `is_rewritten`): all but the
    statements for its assertions must still agree.
    """
    try:
        tree = _tree(text, code.co_filename, future_flags(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    candidates = tree.by_line.get((code.co_name, code.co_firstlineno), ())
    found = next((path for path, known in candidates if known == code), None)
    if found is None and rewritten:
        found = next((path for path, known in candidates if _asserts_apart(code, known)), None)
    return found


def qualified_name(code: CodeType) -> str:
    """`co_qualname`; on Python 3.10, which lacks it, read from the text, or the plain name where there is none."""
    known = getattr(code, "co_qualname", None)
    if known is not None:
        return str(known)
    text = text_of(code.co_filename)
    path = locate(code, text) if text is not None else None
    if text is None or path is None:
        return code.co_name
    tree = _tree(text, code.co_filename, future_flags(code))
    parts = []
    for depth, step in enumerate(path[:-1], start=1):
        parts.append(step[0])
        if tree.by_path[path[:depth]].co_flags & inspect.CO_NEWLOCALS:  # a function, not a class
            parts.append("<locals>")
    return ".".join([*parts, code.co_name])


def extract(text: str, filename: str, path: Path, flags: int = 0) -> CodeType:
    """The code object at `path`, compiled from `text` under the name `filename`.

    `flags` are the future flags that the recorded code inherited (`future_flags`); the text's own are found in
    the text. Raises `MissingError` if this Python cannot compile the text, or if nothing is at the path.
    """
    name = ".".join(step[0] for step in path) or "<module>"
    try:
        tree = _tree(text, filename, flags)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise MissingError(
            f"{filename}: this Python cannot compile the recorded text ({error}); "
            f"replay with the Python that recorded it to get {name}"
        ) from error
    code = tree.by_path.get(path)
    if code is None:
        raise MissingError(f"{filename}: the recorded text has no {name} at line {path[-1][1]}")
    return code


def extract_similar(
    text: str, filename: str, path: Path, names: tuple[tuple[str, ...], tuple[str, ...]]
) -> CodeType:
    """As `extract`, from a text that may be another version's: lines may differ, `names` (see `outline`) may not."""
    tree = _tree(text, filename, 0)
    exact = tree.by_path.get(path)
    if exact is not None and outline(exact) == names:
        return exact
    wanted = [step[0] for step in path]
    found = [
        code
        for at, code in tree.by_path.items()
        if [step[0] for step in at] == wanted and outline(code) == names
    ]
    if len(found) != 1:
        raise MissingError(
            f"{filename}: {'.'.join(wanted)} is not what it was when recorded ({len(found)} candidates); "
            "install the recorded version of the package"
        )
    return found[0]


def outline(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A function's argument names and free variables: what its caller and its closure rely on."""
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return code.co_varnames[:count], code.co_freevars


def future_flags(code: CodeType) -> int:
    """The `from __future__` flags that `code` was compiled with."""
    flags: int = code.co_flags & FUTURE_FLAGS
    return flags


def is_rewritten(namespace: Mapping[str, Any]) -> bool:
    """Whether the module with these globals was loaded by pytest's assertion rewriter."""
    loader = namespace.get("__loader__") or getattr(namespace.get("__spec__"), "loader", None)
    return type(loader).__module__ == "_pytest.assertion.rewrite"


def texts(filename: str, namespace: dict[str, Any] | None = None) -> Iterator[str]:
    """The texts that may belong to `filename`: what `linecache` knows first, then the file as it is now.

    `linecache` also knows notebook cells, doctests and modules in archives.
    """
    cached = "".join(linecache.getlines(filename, namespace))
    if cached:
        yield cached
    try:
        with tokenize.open(filename) as file:
            present = file.read()
    except (OSError, SyntaxError, UnicodeError, ValueError):
        return
    if present and present != cached:
        yield present


def text_of(filename: str, namespace: dict[str, Any] | None = None) -> str | None:
    """The first of `texts`, None if there is none."""
    return next(texts(filename, namespace), None)


def show(filename: str, text: str) -> Callable[[], None]:
    """Let tracebacks and `inspect.getsource` see `text` as the file `filename`; call the result to undo it."""
    before = linecache.cache.get(filename)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)

    def undo() -> None:
        if before is None:
            linecache.cache.pop(filename, None)
        else:
            linecache.cache[filename] = before

    return undo


@contextmanager
def shown(sources: Mapping[str, str]) -> Iterator[None]:
    """`show` every text of `sources` (by file name) while inside."""
    with ExitStack() as undo:
        for filename, text in sources.items():
            undo.callback(show(filename, text))
        yield


@functools.lru_cache(maxsize=256)
def _tree(text: str, filename: str, flags: int) -> Tree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user has seen them when the module was imported
        top = compile(text, filename, "exec", flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    tree = Tree()
    _plant(tree, top, ())
    return tree


def _plant(tree: Tree, code: CodeType, path: Path) -> None:
    tree.by_path.setdefault(path, code)
    tree.by_line.setdefault((code.co_name, code.co_firstlineno), []).append((path, code))
    groups: dict[tuple[str, int], list[list[CodeType]]] = {}
    for child in _children(code):
        group = groups.setdefault((child.co_name, child.co_firstlineno), [])
        twins = next((twins for twins in group if _same_body(child, twins[0])), None)
        if twins is None:
            group.append([child])
        else:  # some versions of Python merge twins, others don't: they share a path
            twins.append(child)
    for (name, line), group in groups.items():
        for number, twins in enumerate(sorted(group, key=_start) if len(group) > 1 else group):
            for child in twins:
                _plant(tree, child, (*path, (name, line, number)))


def _children(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if not isinstance(constant, CodeType) or constant.co_name == "__annotate__":
            continue
        if constant.co_name in COMPREHENSIONS or constant.co_name.startswith(GENERIC_PARAMETERS):
            yield from _children(constant)
        else:
            yield constant


def _same_body(one: CodeType, other: CodeType) -> bool:
    return one == other or all(
        getattr(one, name) == getattr(other, name)
        for name in ("co_code", "co_consts", "co_names", "co_varnames", "co_freevars")
    )


def _start(twins: list[CodeType]) -> tuple[int, int]:
    """Line and column where the first body begins: source order, whatever order the compiler took."""
    code = twins[0]
    positions = getattr(code, "co_positions", None)  # since Python 3.11
    known = ((line, column) for line, _, column, _ in positions() if line and column) if positions else ()
    return min(known, default=(code.co_firstlineno, 0))


def _asserts_apart(live: CodeType, plain: CodeType) -> bool:
    """Whether `live` may be `plain` with its assertions rewritten: pytest adds names and locals, and keeps the rest."""
    if outline(live) != outline(plain) or live.co_firstlineno != plain.co_firstlineno:
        return False
    if not _has_assertion(plain):
        return False
    if not set(plain.co_names) <= set(live.co_names) or not _constants(plain) <= _constants(live):
        return False
    children, twins = list(_children(plain)), list(_children(live))
    return len(children) == len(twins) and all(
        one == other or _asserts_apart(other, one) for one, other in zip(children, twins, strict=True)
    )


def _has_assertion(code: CodeType) -> bool:
    wanted = opcode.opmap.get("LOAD_ASSERTION_ERROR", -1)
    return wanted in list(code.co_code[::2]) or any(_has_assertion(child) for child in _children(code))


def _constants(code: CodeType) -> set[tuple[type, Any]]:
    return {(type(value), value) for value in code.co_consts if isinstance(value, (str, bytes, int, float))}
