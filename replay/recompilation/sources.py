"""What a guard is about, as torch writes it, taken apart: "L['self'].step" -> a root and the way from it.

Read with `ast`; nothing is evaluated. What has no such form (calls, iterators, types) gives None.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, Literal

Step = tuple[Literal["attribute", "item", "cell"], str | int]
"""From an object to a part of it: an attribute, what stands under a key, the contents of a closure's cell."""

_ROOTS = {"L": "local", "G": "global"}
_ASPECTS = ("size", "stride")
_TABLES = ("_parameters", "_buffers", "_modules", "__dict__")
"""Where modules and objects keep their attributes: what stands in them is an attribute of the object."""
_MODULE = "__import_"
"""How torch names a module among the globals: `__import_pkg_dot_nets`."""
_DEPTH = 50


@dataclass(frozen=True, slots=True)
class Source:
    """A place in the program: a variable, and the way from it. `aspect`: of the tensor there, "size" or "stride"."""

    root: str  # "local" or "global"
    name: str
    steps: tuple[Step, ...] = ()
    aspect: str = ""

    @property
    def is_attribute(self) -> bool:
        """Whether it is an attribute of an object."""
        return bool(self.steps) and self.steps[-1][0] == "attribute"


def parse(text: str) -> Source | None:
    """The place that torch's words name; None if they name none that can be followed."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    aspect, inner = _aspect(tree)
    found = _walk(inner, _DEPTH)
    return None if found is None else Source(found.root, found.name, found.steps, aspect)


def show(source: Source) -> str:
    """The place as the program writes it: `self.step`, `items[0]`, `self.layers[1].weight`."""
    name = module_name(source.name) or source.name
    for kind, key in source.steps:
        if kind == "cell":
            name = f"{name}.__closure__[{key}].cell_contents"
        elif kind == "item" or str(key).isdigit():  # a module in a list of modules
            name += f"[{key if kind == 'attribute' else repr(key)}]"
        else:
            name = f"{name}.{key}" if str(key).isidentifier() else f"getattr({name}, {key!r})"
    return name


def module_name(name: str) -> str:
    """`pkg.nets` of `__import_pkg_dot_nets`; empty for a global that is no module of torch's naming."""
    return name.removeprefix(_MODULE).replace("_dot_", ".") if name.startswith(_MODULE) else ""


def _aspect(tree: ast.expr) -> tuple[str, ast.expr]:
    """`L['x'].size()[0]` is about the tensor; so is `L['x'].size()`."""
    call = tree.value if isinstance(tree, ast.Subscript) else tree
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _ASPECTS:
        return call.func.attr, call.func.value
    return "", tree


def _walk(tree: ast.expr, depth: int) -> Source | None:
    if not depth:
        return None
    if isinstance(tree, ast.Attribute):
        return _attribute(tree, depth)
    if isinstance(tree, ast.Call):
        return _call(tree, depth)
    if not isinstance(tree, ast.Subscript) or not isinstance(tree.slice, ast.Constant):
        return None
    key: Any = tree.slice.value
    if type(key) not in (str, int):
        return None
    if isinstance(tree.value, ast.Name):
        return Source(_ROOTS[tree.value.id], key) if tree.value.id in _ROOTS and type(key) is str else None
    if isinstance(tree.value, ast.Attribute) and tree.value.attr in _TABLES and type(key) is str:
        return _with(_walk(tree.value.value, depth - 1), ("attribute", key))
    return _with(_walk(tree.value, depth - 1), ("item", key))


def _attribute(tree: ast.Attribute, depth: int) -> Source | None:
    if tree.attr != "cell_contents":
        return _with(_walk(tree.value, depth - 1), ("attribute", tree.attr))
    cell = tree.value
    if not isinstance(cell, ast.Subscript) or not isinstance(cell.slice, ast.Constant):
        return None
    if not isinstance(cell.value, ast.Attribute) or cell.value.attr != "__closure__":
        return None
    position: Any = cell.slice.value
    return _with(_walk(cell.value.value, depth - 1), ("cell", position)) if type(position) is int else None


def _call(tree: ast.Call, depth: int) -> Source | None:
    """`getattr(x, 'a b')`, `dict.__getitem__(x, 'key')`, `list.__getitem__(x, 0)`."""
    name = ast.unparse(tree.func)
    if len(tree.args) != 2 or tree.keywords or not isinstance(tree.args[1], ast.Constant):
        return None
    key: Any = tree.args[1].value
    if type(key) not in (str, int):
        return None
    if name == "getattr":
        return _with(_walk(tree.args[0], depth - 1), ("attribute", key))
    if name in ("dict.__getitem__", "list.__getitem__", "tuple.__getitem__"):
        return _with(_walk(tree.args[0], depth - 1), ("item", key))
    return None


def _with(source: Source | None, step: Step) -> Source | None:
    return None if source is None else Source(source.root, source.name, (*source.steps, step))
