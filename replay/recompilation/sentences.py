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
_STACK = re.compile(r"L\['___stack\d+'\]")
"""What a resume function gets of the interpreter's stack."""
_RANGE = re.compile(r"[<>%]|size\(\)\[\d+\] [!=]=|[!=]= \S+\.size\(\)")
"""A condition that holds for several values, or relates them."""
_SIZE = re.compile(r"\.(?:size|stride)\(\)(?:\[\d+\])?$")
_CELL = re.compile(r"\.__closure__\[\d+\]\.cell_contents")


def name(source: str) -> str:
    """A source as the program has it: `L['self']._modules['a'].mode` is `self.a.mode`."""
    source = _STACK.sub("a value from before the graph break", source)
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


def sentence(group: CauseGroup, guards: Sequence[str] = ()) -> str:
    """What happens, in one line. `guards`: the conditions behind it, in torch's words."""
    what, values = name(group.source), listed(group.values)
    ranges = [one for one in guards if _RANGE.search(one)]
    if group.cause in ("size", "integer") and ranges and len(ranges) == len(guards):
        subject = f"size {group.dimension} of {what}" if group.cause == "size" else what
        return f"{subject} was {values}: compiled code holds for {listed([_plain(one) for one in ranges])}"
    return _SENTENCES.get(group.cause, _other)(what, values, group)


def _plain(guard: str) -> str:
    """A condition as the program would write it: `2 <= x.size()[0]`."""
    return _GLOBAL.sub(r"\1", _LOCAL.sub(r"\1", guard))


def _size(what: str, values: str, group: CauseGroup) -> str:
    return f"size {group.dimension} of {what} was {values}: code for one size fits no other"


def _function(what: str, values: str, group: CauseGroup) -> str:
    if _CELL.search(group.source):
        return f"{what} held {values}: a function with another value in its closure is another function"
    if "__defaults__" in group.source:
        return f"{what} was {values}: a function with another default is another function"
    if len(group.values) <= 1:
        return f"{what} was a new function object each time: a function is guarded by its identity"
    return f"{what} was {values}: each function is compiled for on its own"


def _identity(what: str, values: str, group: CauseGroup) -> str:
    if set(group.values) == {"the same object", "another object"}:
        return f"{what} was {values} as another argument: which of them are one is compiled in"
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
    "size": _size,
    "stride": lambda what, values, group: (
        f"the strides of {what} were {values}: each way to lie in memory is compiled for on its own"
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
        else f"{what} held something else ({values}): a container is compiled in item by item"
    ),
    "identity": _identity,
}
