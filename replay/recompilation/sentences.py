"""One sentence for each cause: what was seen, and why that compiles the frame again. Plain text, no torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from replay.findings.recompiles import Cause, CauseGroup

SHOWN = 4
"""Values that a sentence names."""

_LOCAL = re.compile(r"L\['([^']+)'\]")
_GLOBAL = re.compile(r"G\['([^']+)'\]")
_IMPORTED = re.compile(r"^G\['__import_([^']*)'\]")
_SIZE = re.compile(r"\.(?:size|stride)\(\)\[\d+\]$")
_CELL = re.compile(r"\.__closure__\[\d+\]\.cell_contents")


def name(source: str) -> str:
    """A source as the program has it: `L['self']._modules['a'].mode` is `self.a.mode`."""
    text = _IMPORTED.sub(lambda found: found[1].replace("_dot_", "."), source)
    text = _GLOBAL.sub(r"\1", _LOCAL.sub(r"\1", _SIZE.sub("", text)))
    text = re.sub(r"\._(?:modules|parameters|buffers)\['([^']+)'\]", r".\1", text)
    text = re.sub(r"\.__dict__\['([^']+)'\]", r".\1", text)
    text = re.sub(r"list\(dict\.keys\((.*)\)\)\[\d+\]", r"a key of \1", text)
    return _CELL.sub("'s closure", text).removesuffix(".__code__")


def listed(values: Sequence[str]) -> str:
    """`1, 2, 3, ... (8 values)`."""
    shown = ", ".join(values[:SHOWN])
    return shown if len(values) <= SHOWN else f"{shown}, ... ({len(values)} values)"


def sentence(group: CauseGroup) -> str:
    """What happens, in one line."""
    write = _SENTENCES.get(group.cause, _other)
    return write(name(group.source), listed(group.values), group)


def _size(what: str, values: str, group: CauseGroup) -> str:
    return f"size {group.dimension} of {what} was {values}: code for one size fits no other"


def _symbolic(what: str, values: str, group: CauseGroup) -> str:
    if group.dimension is None:
        return f"{group.source} was {values}: a condition that was compiled in does not hold"
    return _size(what, values, group)


def _function(what: str, values: str, group: CauseGroup) -> str:
    if _CELL.search(group.source):
        return f"{what} held {values}: a function with another value in its closure is another function"
    if "__defaults__" in group.source:
        return f"{what} was {values}: a function with another default is another function"
    if len(group.values) <= 1:
        return f"{what} was a new function object each time: a function is guarded by its identity"
    return f"{what} was {values}: each function is compiled for on its own"


def _identity(what: str, values: str, group: CauseGroup) -> str:
    several = f"was {values}" if len(group.values) > 1 else "was another object each time"
    return f"{what} {several}: the code is for one object, known by its id"


def _state(what: str, values: str, group: CauseGroup) -> str:
    label = (what or "the state of the process").replace("_", " ")
    return f"{label} was {values}: the compiled code holds for one state of the process"


def _other(what: str, values: str, group: CauseGroup) -> str:
    return f"{what or 'a condition'} was {values}" if values else f"{what or 'a condition'} did not hold"


_SENTENCES: Mapping[Cause, Callable[[str, str, CauseGroup], str]] = {
    "integer": lambda what, values, group: (
        f"{what} was {values}: each value of a plain int is compiled for on its own"
    ),
    "float": lambda what, values, group: (
        f"{what} was {values}: each value of a plain float is compiled for on its own"
    ),
    "boolean": lambda what, values, group: f"{what} was {values}: each of the two is compiled for on its own",
    "string": lambda what, values, group: f"{what} was {values}: each string is compiled for on its own",
    "size": _symbolic,
    "stride": lambda what, values, group: (
        f"stride {group.dimension} of {what} was {values}: the same numbers lay otherwise in memory"
    ),
    "rank": lambda what, values, group: (
        f"{what} had {values} dimensions: each number of dimensions is compiled for on its own"
    ),
    "dtype": lambda what, values, group: f"{what} was {values}: each dtype is compiled for on its own",
    "device": lambda what, values, group: f"{what} was on {values}: each device is compiled for on its own",
    "requires_grad": lambda what, values, group: (
        f"requires_grad of {what} was {values}: with and without a gradient are two graphs"
    ),
    "attribute": lambda what, values, group: (
        f"{what} was {values}: an attribute is compiled in as a constant"
    ),
    "function": _function,
    "grad_mode": lambda what, values, group: (
        f"grad mode was {values}: with and without gradients are two graphs"
    ),
    "global_state": _state,
    "type": lambda what, values, group: f"{what} was of type {values}: each type is compiled for on its own",
    "length": lambda what, values, group: (
        f"the length of {what} was {values}: a container is compiled in item by item"
        if all(value.isdigit() for value in group.values)
        else f"the keys of {what} were other ones: a container is compiled in item by item"
    ),
    "identity": _identity,
}
