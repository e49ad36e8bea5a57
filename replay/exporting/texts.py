"""A user's file as text: its top-level statements by the names that they bind, and the names that a piece needs.

Read from the syntax tree and the symbol table; nothing is executed. A piece keeps the user's own lines, with the
comments that stand right above it.
"""

from __future__ import annotations

import ast
import builtins
import symtable
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from replay.findings.export import Excerpt

COMPILES = ("torch.compile", "compile")
"""Decorators that stay where the function is compiled by them."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class File:
    """One text. Raises SyntaxError when it is first used, if this Python cannot read it."""

    name: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """Its lines, without their ends."""
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def bindings(self) -> dict[str, ast.stmt]:
        """The last top-level statement that binds each name."""
        return {name: one for one in self.tree.body for name in _bound(one)}

    def binders(self, name: str) -> list[ast.stmt]:
        """All top-level statements that bind a name, but for definitions and imports before the last."""
        last = self.bindings[name]
        if isinstance(last, (*DEFINITIONS, *IMPORTS)):
            return [last]
        return [one for one in self.tree.body if name in _bound(one)]

    def excerpt(self, node: ast.stmt | ast.expr, name: str) -> Excerpt:
        """A statement's own lines, dedented."""
        first, last = first_line(node), node.end_lineno or node.lineno
        while first > 1 and _is_comment_above(self.lines[first - 2], self.lines[first - 1]):
            first -= 1
        text = textwrap.dedent("\n".join(self.lines[first - 1 : last]))
        return Excerpt(self.name, first, name, text, isinstance(node, DEFINITIONS))

    def definition(self, name: str, line: int) -> ast.stmt | None:
        """The function or class of that name whose first line, a decorator's where it has one, is `line`."""
        for node in ast.walk(self.tree):
            if isinstance(node, DEFINITIONS) and node.name == name and first_line(node) == line:
                return node
        return None

    def lambdas(self, line: int) -> list[ast.Lambda]:
        """The lambdas that begin on a line."""
        return [one for one in ast.walk(self.tree) if isinstance(one, ast.Lambda) and one.lineno == line]

    def attached(self, name: str) -> Iterator[ast.stmt]:
        """What registers something with a top-level name: `@name.register_fake`, `name.register_autograd(...)`."""
        for node in self.tree.body:
            if isinstance(node, DEFINITIONS):
                calls: list[ast.expr] = list(node.decorator_list)
            elif isinstance(node, ast.Expr):
                calls = [node.value]
            else:
                continue
            found = [one.func if isinstance(one, ast.Call) else one for one in calls]
            if any(_registers(one, name) for one in found):
                yield node

    def operators(self, namespace: str) -> list[ast.stmt]:
        """Top-level statements that make operators of a namespace, or register something with them."""
        made = [one for one in self.tree.body if _mentions(one, namespace)]
        libraries = {name for one in made if isinstance(one, ast.Assign) for name in _bound(one)}
        return [
            one
            for one in self.tree.body
            if one in made
            or (isinstance(one, (*DEFINITIONS, ast.Expr)) and libraries & _names_outside_bodies(one))
        ]

    @property
    def annotations_are_texts(self) -> bool:
        """Whether it has `from __future__ import annotations`."""
        return any(
            isinstance(one, ast.ImportFrom)
            and one.module == "__future__"
            and any(alias.name == "annotations" for alias in one.names)
            for one in self.tree.body
        )


def first_line(node: ast.stmt | ast.expr) -> int:
    """Of a definition with decorators, the first decorator's."""
    return min([node.lineno, *(one.lineno for one in _decorator_nodes(node))])


def free_names(text: str) -> list[str]:
    """The global names that a piece of top-level text uses and does not bind itself, without Python's own."""
    top = symtable.symtable(text, "<piece>", "exec")
    bound = {one.get_name() for one in top.get_symbols() if one.is_assigned() or one.is_imported()}
    used = {
        one.get_name()
        for table in _tables(top)
        for one in table.get_symbols()
        if one.is_referenced() and (one.is_global() or table is top)
    }
    bound |= {one.get_name() for one in top.get_symbols() if one.is_namespace()}
    return sorted(used - bound - set(dir(builtins)))


def names_at_definition(text: str) -> set[str]:
    """Those that the text uses as soon as it is run: in decorators, defaults, bases, class bodies."""
    top = symtable.symtable(text, "<piece>", "exec")
    tables = [top, *(one for one in top.get_children() if one.get_type() == "class")]
    return {one.get_name() for table in tables for one in table.get_symbols() if one.is_referenced()} - set(
        dir(builtins)
    )


def attributes_of(text: str, name: str) -> list[str]:
    """The attributes that a piece of text asks of a name, in order: "Block" of `layers.Block(3)`."""
    found = [
        node.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    ]
    return list(dict.fromkeys(found))


def imports_inside(text: str) -> list[str]:
    """The modules that functions of a piece import when they run; relative ones begin with a dot."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append("." * node.level + (node.module or ""))
    return found


def namespaces(text: str) -> set[str]:
    """The namespaces of operators that a text reaches by `torch.ops`."""
    return {
        node.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and ast.unparse(node.value) == "torch.ops"
    }


def bare(node: ast.stmt, text: str) -> str:
    """A nested function's text, without decorators: the recorded function is what they were given."""
    wanted = [one for one in decorators(node) if one in COMPILES]
    if not getattr(node, "decorator_list", ()) or wanted:
        return text
    lines = text.split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith(("def ", "async def ")))
    return "\n".join(lines[at:])


def decorators(node: ast.stmt) -> list[str]:
    """The decorators of a definition, without their arguments: "torch.compile"."""
    calls = [one.func if isinstance(one, ast.Call) else one for one in _decorator_nodes(node)]
    return [ast.unparse(one) for one in calls]


def _decorator_nodes(node: ast.AST) -> list[ast.expr]:
    return node.decorator_list if isinstance(node, DEFINITIONS) else []


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a top-level statement binds, also inside `if`, `try` and the like."""
    if isinstance(node, DEFINITIONS):
        yield node.name
    elif isinstance(node, ast.Expr):
        return
    elif isinstance(node, IMPORTS):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    else:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield from _bound(child)
            elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                yield child.id
            elif isinstance(child, (ast.Tuple, ast.List, ast.Starred, ast.withitem, ast.ExceptHandler)):
                yield from _bound(child)  # type: ignore[arg-type]


def _registers(function: ast.expr, name: str) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == name
        and function.attr.startswith("register")
    )


def _mentions(node: ast.stmt, namespace: str) -> bool:
    """Whether a statement that is no definition's body has the namespace in a text: "ns", "ns::op"."""
    return any(
        isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.split("::")[0] == namespace
        for part in _outside_bodies(node)
        for one in ast.walk(part)
    )


def _names_outside_bodies(node: ast.stmt) -> set[str]:
    return {one.id for part in _outside_bodies(node) for one in ast.walk(part) if isinstance(one, ast.Name)}


def _outside_bodies(node: ast.stmt) -> list[ast.AST]:
    """What of a statement runs with the file: of a definition, its decorators."""
    return [*_decorator_nodes(node)] if isinstance(node, DEFINITIONS) else [node]


def _is_comment_above(line: str, below: str) -> bool:
    indent = len(below) - len(below.lstrip())
    return line.startswith(below[:indent] + "#") and not line.startswith("#!")
