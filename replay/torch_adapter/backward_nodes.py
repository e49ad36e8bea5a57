"""The operators of compiled autograd: torch's own nodes of the backward graph, as functions.

torch makes one, from C++, when a backward graph with such a node is captured for the first time in a process; there
is no list of them and no way to ask for one. So a replay captures a small backward with the node in it: the forward
operator is found by the node's name, and called with small arguments that its schema allows. A node for which that
fails is missing, and named.
"""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from replay.errors import MissingError
from replay.torch_adapter import features

_ROOM = "torch._dynamo.compiled_autograd"
_NODE = re.compile(r"^(\w+?)Backward\d+$")
_SHAPES = ((2, 2), (2,), (1, 2, 2), (1, 1, 3, 3))
_NUMBERS = (0, 1)
_OTHERS = (None, 1, 4)
"""What the tensors after the first are: like it, or indices of as many of its dimensions."""
_SMALL = {"float": 0.5, "number": 1, "str": ""}
MARK = "torch__dynamo_compiled_autograd_"
"""How the globals of a captured backward begin that belong to compiled autograd."""


def is_operator(kind: type) -> bool:
    """Whether this is the class of such operators."""
    return kind is getattr(sys.modules.get(_ROOM), "Op", None)


def is_captured(code: Any, f_globals: dict[str, Any]) -> bool:
    """Whether a frame is a backward graph that compiled autograd captured."""
    return code.co_filename.startswith("<eval_with_key>") and any(
        type(name) is str and name.startswith(MARK) for name in f_globals
    )


def operator(name: str) -> Any:
    """The operator of that name, captured if it is not there yet. Raises MissingError if that does not succeed."""
    room = features.module(_ROOM)
    known = features.require(room, "ops")
    if not hasattr(known, name):
        try:
            _capture(room, name)
        except Exception as error:
            raise MissingError(
                f"the node {name!r} of compiled autograd: {type(error).__name__}: {error}"
            ) from error
    if not hasattr(known, name):
        raise MissingError(f"the node {name!r} of compiled autograd: no small backward with it was found")
    return known.get(name)


@contextmanager
def region(*, inside: bool) -> Iterator[None]:
    """What torch calls the region of compiled autograd: Dynamo and AOTAutograd look whether they are in it."""
    if not inside:
        yield
        return
    room = features.module(_ROOM)
    before = features.require(room, "in_compiled_autograd_region")
    room.in_compiled_autograd_region = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        room.in_compiled_autograd_region = before  # type: ignore[attr-defined]


def _capture(room: Any, name: str) -> None:
    """Capture a small backward in which the node occurs, if one is found."""
    torch = features.module("torch")
    with torch.enable_grad(), torch.inference_mode(False), torch.device("cpu"):
        output = _output(torch, name)
        if output is None:
            return
        enabled = features.require(room, "_enable")
        with enabled(lambda graph: graph), warnings.catch_warnings(), suppress(Exception):
            output.sum().backward()  # the captured graph runs too, which may fail: it was captured by then


def _output(torch: Any, name: str) -> Any:
    """A tensor whose gradient function is the node; for what belongs to no node, any tensor will do."""
    found = _NODE.match(name)
    if found is None:
        return torch.ones(2, requires_grad=True)
    for stem in _forward_names(torch, found[1].lower()):
        packet = getattr(torch.ops.aten, stem, None)
        for overload in packet.overloads() if packet is not None else ():
            for arguments in _arguments(torch, getattr(packet, overload)._schema):
                output = _result(getattr(packet, overload), arguments)
                node = getattr(output, "grad_fn", None)
                if node is not None and node.name() == name:
                    return output
    return None


def _forward_names(torch: Any, node: str) -> list[str]:
    """Operators whose name is the node's, if underscores and "forward" do not count; in-place ones last."""
    all_names = features.require(torch._C, "_dispatch_get_all_op_names")()
    stems = {name.removeprefix("aten::").partition(".")[0] for name in all_names if name.startswith("aten::")}
    return sorted(
        (stem for stem in stems if stem.replace("_", "").removesuffix("forward") == node),
        key=lambda stem: (stem.endswith("_"), stem),
    )


def _result(function: Any, arguments: list[Any]) -> Any:
    try:
        result = function(*arguments)
    except Exception:  # noqa: BLE001 - arguments that do not suit are skipped
        return None
    return result[0] if isinstance(result, (tuple, list)) and result else result


def _arguments(torch: Any, schema: Any) -> Iterator[list[Any]]:
    """Small arguments that the schema allows, positional ones without a default."""
    needed = [one for one in schema.arguments if not one.has_default_value() and not one.kwarg_only]
    kinds = [str(one.type) for one in needed]
    for shape, number, truth, other in itertools.product(_SHAPES, _NUMBERS, (False, True), _OTHERS):
        values = [_value(torch, kind, shape, (number, truth)) for kind in kinds]
        places = [place for place, value in enumerate(values) if isinstance(value, torch.Tensor)]
        for place in places[1:] if other is not None else ():
            values[place] = torch.zeros(shape[:other], dtype=torch.int64)
        yield values


def _value(torch: Any, kind: str, shape: tuple[int, ...], plain: tuple[int, bool]) -> Any:
    number, truth = plain
    if kind.startswith("Optional"):
        return None
    if kind == "Tensor":
        return torch.full(shape, 0.5, requires_grad=True)
    if kind == "List[Tensor]":
        return [torch.full(shape, 0.5, requires_grad=True)]
    if kind == "List[int]":
        return ([1, 1] if truth is False else [*shape]) if number else [0]
    if kind == "bool":
        return truth
    return number if kind == "int" else _SMALL.get(kind)
