"""Source text without the values that its modules assign to some names; every statement stays on its line."""

from __future__ import annotations

import ast
from collections.abc import Collection


def without_values(text: str, names: Collection[str]) -> tuple[str, set[str]]:
    """The text with `...` in place of what is assigned to the names at module level, and the names that are left.

    Left are those whose function or class the text holds, and all of them where this Python cannot parse the text.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text, {name for name in names if name in text}
    values: list[ast.expr] = []
    left: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            left |= {node.name} & set(names)
        if _targets(node) & set(names) and (value := getattr(node, "value", None)) is not None:
            values.append(value)
    lines = [line.encode() for line in text.split("\n")]
    for value in sorted(values, key=lambda one: (-one.lineno, -one.col_offset)):
        _blank(lines, value)
    return b"\n".join(lines).decode(), left


def _targets(node: ast.stmt) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return set()
    return {one.id for target in targets if target for one in ast.walk(target) if isinstance(one, ast.Name)}


def _blank(lines: list[bytes], value: ast.expr) -> None:
    """Put `...` where the value stands; of one that takes several lines, an expression that takes as many."""
    first, last = value.lineno - 1, (value.end_lineno or value.lineno) - 1
    before, after = lines[first][: value.col_offset], lines[last][value.end_col_offset :]
    if first == last:
        lines[first] = before + b"..." + after
    else:
        lines[first : last + 1] = [before + b"(...", *[b""] * (last - first - 1), b")" + after]
