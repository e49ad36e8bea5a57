"""Objects that can be named by an import: functions, classes and constants of installed packages."""

from __future__ import annotations

import ast
import importlib
import sys
from types import ModuleType
from typing import Any

from replay.exporting import expressions
from replay.exporting.transcript import Transcript
from replay.shipping.modules import MARK

PLAIN = ("torch", "torch.nn", "torch.nn.functional", "torch.nn.init", "math", "operator")
"""Where a name is looked for first: these are how people write it."""


def is_users(module: str | None) -> bool:
    """Whether a module of the loaded values is the user's own, or is not here."""
    found = sys.modules.get(module or "")
    return not isinstance(found, ModuleType) or MARK in found.__dict__ or module == "__main__"


def by_import(transcript: Transcript, value: Any) -> ast.expr | None:
    """The value's name in the module of an installed package that defines it; None where it has none."""
    home = getattr(value, "__module__", None) or getattr(
        getattr(value, "__objclass__", None), "__module__", None
    )
    for name in dict.fromkeys(getattr(value, kind, None) for kind in ("__qualname__", "__name__")):
        if not isinstance(name, str) or "<" in name:
            continue
        if home in ("builtins", None) and _find("builtins", name) is value:
            return expressions.dotted(name)
        for module in (*PLAIN, home):
            if isinstance(module, str) and not is_users(module) and _find(module, name) is value:
                transcript.need("torch" if module in PLAIN and module.startswith("torch.") else module)
                return expressions.dotted(f"{module}.{name}")
    return None


def module_by_import(transcript: Transcript, module: ModuleType) -> ast.expr | None:
    """An installed module by its name; None for the user's."""
    if is_users(module.__name__):
        return None
    transcript.need(module.__name__)
    return expressions.dotted(module.__name__)


def _find(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
