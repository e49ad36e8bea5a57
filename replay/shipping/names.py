"""Which names a function's code uses, read from its bytecode.

Globals and imports are told from attributes; nested code objects count as the function's own. Nothing here looks
at values.
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

_GLOBAL_NAMES = (
    "LOAD_GLOBAL",
    "LOAD_NAME",
    "STORE_GLOBAL",
    "DELETE_GLOBAL",
    "LOAD_FROM_DICT_OR_GLOBALS",
)
_GLOBALS = frozenset(opcode.opmap[name] for name in _GLOBAL_NAMES if name in opcode.opmap)
_LOAD_GLOBAL = opcode.opmap["LOAD_GLOBAL"]
_LOAD_CONST = opcode.opmap["LOAD_CONST"]
_IMPORT_NAME = opcode.opmap["IMPORT_NAME"]
_EXTENDED_ARG = opcode.EXTENDED_ARG
_SHIFT = 1 if sys.version_info >= (3, 11) else 0  # LOAD_GLOBAL's lowest bit says whether to push a NULL


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement inside a function."""

    module: str
    level: int


@dataclass(frozen=True, slots=True)
class Names:
    """What a piece of code refers to by name."""

    globals: frozenset[str]
    all: frozenset[str]  # globals, attributes, and strings that could be names (for getattr)
    imports: tuple[Import, ...]


def names_of(code: CodeType) -> Names:
    """The names that `code` and the code objects in it use."""
    found_globals: set[str] = set()
    found: set[str] = set()
    imports: list[Import] = []
    todo = [code]
    while todo:
        code = todo.pop()
        found.update(code.co_names)
        _scan(code, found_globals, imports)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                todo.append(constant)
            elif isinstance(constant, str) and constant.isidentifier():
                found.add(constant)
    return Names(frozenset(found_globals), frozenset(found), tuple(imports))


def _scan(code: CodeType, found_globals: set[str], imports: list[Import]) -> None:
    level = 0
    constants: list[object] = []
    for operation, argument in _instructions(code.co_code):
        if operation in _GLOBALS:
            index = argument >> _SHIFT if operation == _LOAD_GLOBAL else argument
            found_globals.add(code.co_names[index])
        elif operation == _LOAD_CONST:
            constants = [*constants[-1:], code.co_consts[argument]]
        elif operation == _IMPORT_NAME:
            first = constants[0] if len(constants) == 2 else 0  # level, then the names after "import"
            level = first if isinstance(first, int) else 0
            imports.append(Import(code.co_names[argument], level))


def _instructions(code: bytes) -> Iterator[tuple[int, int]]:
    extended = 0
    for position in range(0, len(code), 2):
        operation, argument = code[position], code[position + 1] | extended
        extended = argument << 8 if operation == _EXTENDED_ARG else 0
        if operation != _EXTENDED_ARG:
            yield operation, argument
