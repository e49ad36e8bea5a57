"""A program as the text of one file. Pure: parts that are texts in, text out, in the layout of `ruff format`."""

from __future__ import annotations

from collections.abc import Sequence

from replay.exporting.expressions import STEP, quoted, statement
from replay.exporting.modules import REBUILD
from replay.findings.export import Program

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


def render(program: Program, head: Sequence[str], foot: Sequence[str]) -> str:
    """The file's text. `head`: lines of its docstring; `foot`: lines of the comment at its end."""
    blocks = [_docstring(head)]
    if program.variables:
        lines = [f"os.environ[{quoted(name)}] = {quoted(value)}" for name, value in program.variables.items()]
        blocks.append("\n".join(["import os", "", *lines]))
    blocks.append("\n".join(program.imports))
    text = "\n\n".join(blocks)
    text = _code(text, program)
    for lines in (_values(program), [statement(one) for one in program.settings], _calls(program)):
        if lines:
            text = _joined(text, "\n".join(lines))
    return _joined(text, "\n".join(f"# {line}".rstrip() for line in foot)) + "\n"


def _docstring(lines: Sequence[str]) -> str:
    safe = [line.replace("\\", "\\\\").replace('"""', r"\"\"\"") for line in lines]
    return '"""' + "\n".join(safe) + ('\n"""' if len(safe) > 1 else '"""')


def _code(text: str, program: Program) -> str:
    """The user's code: two blank lines around a definition, none between statements that stood together."""
    before, last = False, None
    for one in program.code:
        if one.definition or before:
            gap = "\n\n\n"
        elif last is not None and last.file == one.file and last.line + last.text.count("\n") + 1 == one.line:
            gap = "\n"
        else:
            gap = "\n\n"
        text += gap + one.text
        before, last = one.definition, one
    if program.rebuilds:
        text += "\n\n\n" + _REBUILD
        before = True
    return text + ("\n" if before else "")


def _joined(text: str, block: str) -> str:
    return text + "\n\n" + block


def _values(program: Program) -> list[str]:
    lines = ["torch.manual_seed(0)"] if program.seeded else []
    return lines + [statement(one) for one in program.values]


def _calls(program: Program) -> list[str]:
    """The calls, in the contexts that they stood in."""
    indent, lines = "", []
    if program.contexts:
        lines.append(f"with {', '.join(program.contexts)}:")
        indent = STEP
    return lines + [statement(one, indent) for one in program.calls]
