"""Python expressions as trees, and their text: double quotes, and lines of at most WIDTH characters.

The text is as `ruff format` leaves it. Nothing here knows objects, torch or bundles.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

WIDTH = 88
"""Of a line, as ruff and black have it where nobody says otherwise."""
STEP = "    "
_ESCAPE = re.compile(r"\\(.)")


def dotted(path: str) -> ast.expr:
    """A name, or attributes of one: "torch.nn.Linear"."""
    first, *rest = path.split(".")
    found: ast.expr = ast.Name(first)
    for part in rest:
        found = ast.Attribute(found, part)
    return found


def along(owner: ast.expr, path: str) -> ast.expr:
    """What is found along a path below an object: ".blocks.0.weight" is `owner.blocks[0].weight`."""
    for part in path.split(".")[1:]:
        owner = ast.Subscript(owner, literal(int(part))) if part.isdigit() else ast.Attribute(owner, part)
    return owner


def call(
    function: str | ast.expr,
    positional: Iterable[ast.expr] = (),
    keywords: Mapping[str, ast.expr] | None = None,
) -> ast.expr:
    """A call."""
    named = [ast.keyword(name, value) for name, value in (keywords or {}).items()]
    return ast.Call(dotted(function) if isinstance(function, str) else function, list(positional), named)


def method(owner: ast.expr, name: str, *positional: ast.expr, **keywords: ast.expr) -> ast.expr:
    """A call of an object's method."""
    return call(ast.Attribute(owner, name), positional, keywords)


def literal(value: Any) -> ast.expr:
    """None, a number, a text, bytes, or a list, tuple or dict of them. TypeError for anything else."""
    if value is None or value is Ellipsis or type(value) in (bool, str, bytes):
        return ast.Constant(value)
    if type(value) is int:
        return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))
    if type(value) is float:
        return _float(value)
    if type(value) is complex:
        return call("complex", [_float(value.real), _float(value.imag)])
    if type(value) in (list, tuple):
        return sequence(type(value), [literal(one) for one in value])
    if type(value) is dict:
        return ast.Dict([literal(one) for one in value], [literal(one) for one in value.values()])
    raise TypeError(f"no literal: {type(value).__name__}")


def sequence(kind: type, items: list[ast.expr]) -> ast.expr:
    """A list or a tuple."""
    return ast.List(items) if kind is list else ast.Tuple(items)


def _float(value: float) -> ast.expr:
    if not math.isfinite(value):
        return call("float", [ast.Constant(repr(value))])
    if math.copysign(1.0, value) < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def flat(node: ast.expr) -> str:
    """An expression in one line."""
    if isinstance(node, ast.Constant):
        return "..." if node.value is Ellipsis else quoted(node.value)
    if isinstance(node, ast.Call):
        arguments = [*map(flat, node.args), *(_keyword(one) for one in node.keywords)]
        return f"{flat(node.func)}({', '.join(arguments)})"
    if isinstance(node, ast.Attribute):
        return f"{flat(node.value)}.{node.attr}"
    if isinstance(node, ast.List):
        return f"[{', '.join(map(flat, node.elts))}]"
    if isinstance(node, ast.Tuple):
        return f"({', '.join(map(flat, node.elts))}{',' if len(node.elts) == 1 else ''})"
    if isinstance(node, ast.Dict) and None not in node.keys:
        pairs = zip(node.keys, node.values, strict=True)
        return "{" + ", ".join(f"{flat(key)}: {flat(value)}" for key, value in pairs if key) + "}"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return f"-{flat(node.operand)}"
    return ast.unparse(node)


def quoted(value: Any) -> str:
    """A constant as ruff writes it: a text in double quotes, unless it holds more of them than of single ones."""
    text = repr(value)
    if not isinstance(value, (str, bytes)):
        return text.replace("e+", "e")  # of a large float
    prefix, body = ("b", text[2:-1]) if isinstance(value, bytes) else ("", text[1:-1])
    body = _ESCAPE.sub(lambda found: "'" if found[1] == "'" else found[0], body)
    quote = "'" if body.count('"') > body.count("'") else '"'
    return prefix + quote + body.replace(quote, f"\\{quote}") + quote


def _keyword(one: ast.keyword) -> str:
    return f"{one.arg}={flat(one.value)}" if one.arg else f"**{flat(one.value)}"


def laid_out(node: ast.expr, before: str = "", after: str = "", indent: str = "") -> str:
    """An expression with what stands `before` and `after` it on its lines, broken where a line would be too long."""
    line = f"{indent}{before}{flat(node)}{after}"
    if len(line) <= WIDTH:
        return line
    if isinstance(node, ast.Call) and (node.args or node.keywords):
        parts = [("", one) for one in node.args]
        parts += [(f"{one.arg}=" if one.arg else "**", one.value) for one in node.keywords]
        return _exploded(f"{indent}{before}{flat(node.func)}(", parts, f"){after}", indent)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return laid_out(node.func.value, before, f".{node.func.attr}(){after}", indent)
    if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
        left, right = ("[", "]") if isinstance(node, ast.List) else ("(", ")")
        items = [("", one) for one in node.elts]
        return _exploded(f"{indent}{before}{left}", items, f"{right}{after}", indent)
    if isinstance(node, ast.Dict) and node.keys and None not in node.keys:
        pairs = [(f"{flat(key)}: ", value) for key, value in zip(node.keys, node.values, strict=True) if key]
        return _exploded(f"{indent}{before}{{", pairs, f"}}{after}", indent)
    return line


def _exploded(first: str, parts: Sequence[tuple[str, ast.expr]], last: str, indent: str) -> str:
    inside = [laid_out(node, before, ",", indent + STEP) for before, node in parts]
    return "\n".join([first, *inside, indent + last])


def statement(text: str, indent: str = "") -> str:
    """One simple statement in the same layout: an expression, or an assignment of one. Others stay as they are."""
    (node,) = ast.parse(text).body
    if isinstance(node, ast.Expr):
        return laid_out(node.value, indent=indent)
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return laid_out(node.value, f"{flat(node.targets[0])} = ", indent=indent)
    return "\n".join(indent + line for line in text.split("\n"))


def assigned(target: str, value: ast.expr) -> str:
    """An assignment, in one line."""
    return f"{target} = {flat(value)}"
