"""Source text without comments and docstrings; every statement stays on its line. Parses text, and runs none of it."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Uncommented:
    """The text, and what went."""

    text: str
    lines: dict[str, str]  # each line that changed, without indentation -> what it is now
    docstrings: frozenset[str]  # their values, as a running program has them
    comments: int
    documented: int  # how many docstrings went


def unchanged(text: str) -> Uncommented:
    """Nothing went."""
    return Uncommented(text, {}, frozenset(), 0, 0)


def without_comments(text: str) -> Uncommented | None:
    """The text without them; None where this Python cannot parse it, so that it must stay as it is."""
    try:
        tree = ast.parse(text)
        docstrings = frozenset(_values(tree))
        documented = sum(1 for one in _docstrings(tree) if str(one.value).strip())
        bare = _blank_docstrings(text, tree)
        bare, comments = _without_comment_tokens(bare)
        if _meaning(ast.parse(bare)) != _meaning(tree):
            return None
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    pairs = zip(text.split("\n"), bare.split("\n"), strict=True)
    changed = {old.strip(): new.strip() for old, new in pairs if old.strip() != new.strip()}
    return Uncommented(bare, changed, docstrings, comments, documented)


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        first = node.body[0] if node.body else None
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            yield first.value


def _values(tree: ast.AST) -> Iterator[str]:
    """Since Python 3.13 the compiler takes the indentation out of docstrings: both forms."""
    for one in _docstrings(tree):
        assert isinstance(one.value, str)
        yield one.value
        yield inspect.cleandoc(one.value)


def _blank_docstrings(text: str, tree: ast.AST) -> str:
    lines = [line.encode() for line in text.split("\n")]
    for one in _docstrings(tree):
        first, last = one.lineno - 1, (one.end_lineno or one.lineno) - 1
        before, after = lines[first][: one.col_offset], lines[last][one.end_col_offset :]
        if first == last:
            lines[first] = before + b'""' + after
        else:
            lines[first : last + 1] = [before + b'"""', *[b""] * (last - first - 1), b'"""' + after]
    return b"\n".join(lines).decode()


def _without_comment_tokens(text: str) -> tuple[str, int]:
    lines, count = text.split("\n"), 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
            count += 1
    return "\n".join(lines), count


def _meaning(tree: ast.AST) -> str:
    """The tree with the line of each statement, and without docstrings' words."""
    for one in _docstrings(tree):
        one.value = ""
    rows = [f"{type(node).__name__}:{node.lineno}" for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    return ast.dump(tree) + " ".join(rows)
