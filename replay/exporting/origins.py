"""Where the value of a global came from: the statement that binds its name, a library, or something else."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

from replay.exporting import naming, texts
from replay.torch_adapter import anatomy


def is_a_librarys(value: Any) -> bool:
    """Whether it is an object of an installed class that is no module, tensor or container: a path, a logger."""
    kind = type(value)
    if anatomy.is_tensor(value) or anatomy.is_module(value) or isinstance(value, (type, FunctionType)):
        return False
    return kind.__module__ not in ("builtins", "types", "torch") and not naming.is_users(kind.__module__)


def is_other(node: ast.stmt, value: Any) -> bool:
    """Whether a recorded value is another one than the definition of its name made, as far as that is plain."""
    if not isinstance(value, FunctionType) or texts.decorators(node):
        return False
    return value.__code__.co_firstlineno != texts.first_line(node)


def says(node: ast.stmt | None, value: Any) -> bool:
    """Whether the user's own statement gives a name this value, as far as reading it tells."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return False
    try:
        return bool(ast.literal_eval(node.value) == value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    except Exception:  # noqa: BLE001 - a comparison of the user's own
        return False
