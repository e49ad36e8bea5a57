"""A program as text: of one file, or of a notebook's cells. Pure; in the layout of `ruff format`.

The user's own lines stay as they are: a file is as `ruff format` leaves it if they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from replay.exporting.expressions import STEP, quoted, statement
from replay.findings.export import Program

REBUILD = "rebuild"
"""The function in an exported file that makes an object without its constructor."""

_REBUILD = f'''\
def {REBUILD}(cls, **attributes):
    """Make an object from its attributes: what its constructor was given is not known."""
    made = cls.__new__(cls)
    if isinstance(made, torch.nn.Module):
        torch.nn.Module.__init__(made)
    put = setattr if isinstance(made, torch.nn.Module) else object.__setattr__
    for name, value in attributes.items():
        put(made, name, value)
    return made'''


@dataclass(frozen=True, slots=True)
class _Block:
    text: str
    definition: bool = False  # two blank lines go around it


def render(program: Program, head: Sequence[str], foot: Sequence[str]) -> str:
    """A file's text. `head`: lines of its docstring; `foot`: lines of the comment at its end."""
    comment = "\n".join(f"# {line}".rstrip() for line in foot)
    blocks = [_Block(_docstring(head)), *_blocks(program), _Block(comment)]
    text = blocks[0].text
    for before, one in pairwise(blocks):
        text += ("\n\n\n" if before.definition or one.definition else "\n\n") + one.text
    return text + "\n"


def render_notebook(program: Program, head: Sequence[str], foot: Sequence[str]) -> str:
    """A notebook's text (nbformat 4.5): the docstring and the comment as Markdown cells, the program as code."""
    cells = [_cell(0, "markdown", _fenced(head))]
    cells += [_cell(at, "code", one.text) for at, one in enumerate(_merged(program), start=1)]
    cells.append(_cell(len(cells), "markdown", _fenced(foot)))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1, ensure_ascii=True) + "\n"


def _cell(number: int, kind: str, text: str) -> dict[str, object]:
    code: dict[str, object] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    lines = text.splitlines(keepends=True)
    return {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines, **code}


def _fenced(lines: Sequence[str]) -> str:
    """Text of the recording as a block of code: nothing in it is markup."""
    text = "\n".join(lines)
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}text\n{text}\n{ticks}"


def _docstring(lines: Sequence[str]) -> str:
    safe = [line.replace("\\", "\\\\").replace('"""', r"\"\"\"") for line in lines]
    return '"""' + "\n".join(safe) + ('\n"""' if len(safe) > 1 else '"""')


def _blocks(program: Program) -> Iterator[_Block]:
    if program.variables:
        lines = [f"os.environ[{quoted(name)}] = {quoted(value)}" for name, value in program.variables.items()]
        yield _Block("\n".join(["import os", "", *lines]))
    yield _Block("\n".join(program.imports))
    if program.early:
        yield _Block("\n".join(statement(one) for one in program.early))
    yield from _code(program)
    if program.rebuilds:
        yield _Block(_REBUILD, definition=True)
    for lines in (_values(program), [statement(one) for one in program.settings], _calls(program)):
        if lines:
            yield _Block("\n".join(lines))


def _merged(program: Program) -> list[_Block]:
    """Cells: what comes before the code, all code, and then each block of its own."""
    found: list[_Block] = []
    for one in _blocks(program):
        if one.definition and found and found[-1].definition:
            found[-1] = _Block(f"{found[-1].text}\n\n\n{one.text}", definition=True)
        else:
            found.append(one)
    return found


def _code(program: Program) -> Iterator[_Block]:
    """The user's code; statements that stood together stay together."""
    held: list[str] = []
    end = ("", 0)
    for one in program.code:
        if held and (one.definition or (one.file, one.line) != end):
            yield _Block("\n".join(held))
            held = []
        if one.definition:
            yield _Block(one.text, definition=True)
        else:
            held.append(one.text)
        end = (one.file, one.line + one.text.count("\n") + 1)
    if held:
        yield _Block("\n".join(held))


def _values(program: Program) -> list[str]:
    lines = ["torch.manual_seed(0)"] if program.seeded else []
    return lines + [statement(one) for one in program.values]


def _calls(program: Program) -> list[str]:
    """The calls, in the contexts that they stood in."""
    lines: list[str] = []
    for contexts, steps in groupby(program.steps, lambda one: one.contexts):
        if contexts:
            lines.append(f"with {', '.join(contexts)}:")
        lines += [statement(one.text, STEP if contexts else "") for one in steps]
    return lines
