"""What is known while a frame is turned into a program: names that are taken, imports, excerpts, variables.

The rooms that write code and values share one transcript. It decides nothing about them.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any

from replay.exporting import expressions
from replay.exporting.texts import File
from replay.findings.export import Excerpt

_UNFIT = re.compile(r"\W+")


class RefusedError(Exception):
    """Something that a file without `replay` cannot hold: what, and why."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")


@dataclass(slots=True)
class Transcript:
    """One pass over a frame. `shared`: ids of objects that an earlier pass has met more than once."""

    files: Mapping[str, File]
    shared: set[int]
    tensor: Callable[[Any, str], ast.expr]  # an expression for a recorded tensor, and its path
    shipped: frozenset[str] = frozenset()  # the program's own modules
    exact: bool = False  # values of tensors as recorded, not by shape
    taken: dict[str, str] = field(default_factory=dict)  # name -> what has it
    imports: dict[str, str] = field(default_factory=dict)  # bound name -> statement
    code: dict[tuple[str, int], Excerpt] = field(default_factory=dict)  # by file and line
    order: list[str] = field(default_factory=list)  # files, by when their first excerpt was complete
    early: list[str] = field(default_factory=list)  # statements that come before the code
    statements: list[str] = field(default_factory=list)
    globals: dict[str, list[str]] = field(default_factory=dict)  # those of `statements` that make each
    known: dict[int, ast.expr] = field(
        default_factory=dict
    )  # objects that have a variable, or a place in one
    inside: dict[int, tuple[int, str]] = field(
        default_factory=dict
    )  # object -> what made it, path below that
    met: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)  # met more than once, and not among `shared`
    under_way: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    alive: list[Any] = field(default_factory=list)
    seeded: bool = False
    rebuilds: bool = False
    in_eval: bool = False  # inside a module all of which is in evaluation mode

    def copy(self) -> dict[str, Any]:
        """What it holds now, for `put_back`."""
        held = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: copy(one) for name, one in held.items() if isinstance(one, (dict, list, bool))}

    def put_back(self, held: Mapping[str, Any]) -> None:
        """As it was when `copy` was called."""
        for name, one in held.items():
            setattr(self, name, one)

    def need(self, module: str) -> None:
        """An import of a module, under its own name."""
        first = module.partition(".")[0]
        held = self.imports.get(first, f"import {first}")
        if held.startswith("import ") and " as " not in held:
            self.imports.setdefault(first, f"import {first}")
            if module != first:
                self.imports[f"{module} "] = f"import {module}"  # a key that is no name
            return
        raise RefusedError(module, f"the program uses the name {first!r} for something else ({held})")

    def take(self, name: str, owner: str) -> None:
        """Say what a name of the file stands for."""
        known = self.taken.setdefault(name, owner)
        if known != owner:
            raise RefusedError(
                name,
                f"two things of the program have this name, and one file has room for one: {known}, {owner}",
            )

    def fresh(self, wanted: str) -> str:
        """A name that nothing has yet; it is taken from now on."""
        base = _UNFIT.sub("_", wanted).strip("_") or "value"
        base = f"value_{base}" if base[0].isdigit() else base
        name, number = base, 2
        while (
            name in self.taken or name in self.imports or keyword.iskeyword(name) or hasattr(builtins, name)
        ):
            name, number = f"{base}_{number}", number + 1
        self.taken[name] = f"variable {name}"
        return name

    def bind(self, value: Any, expression: ast.expr, wanted: str) -> ast.expr:
        """Give an object a variable of its own."""
        name = self.fresh(wanted)
        self.statements.append(expressions.assigned(name, expression))
        self.known[id(value)] = ast.Name(name)
        self.alive.append(value)
        return ast.Name(name)

    def add(self, excerpt: Excerpt) -> None:
        """A piece of the user's text that the file has."""
        self.code.setdefault((excerpt.file, excerpt.line), excerpt)
        if excerpt.file not in self.order:
            self.order.append(excerpt.file)
