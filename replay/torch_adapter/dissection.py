"""Graphs and symbolic sizes of torch's taken apart into plain data, for people to read.

What is not known is left empty; nothing is computed, and no tensor's values are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

from replay import source
from replay.findings.explanation import Graph, GraphInput, Inlined, Op, Symbol, TensorInfo
from replay.recording import UserFrame
from replay.torch_adapter import failures, features

_STACK_LINE = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
"""As Python formats a frame; fx keeps a node's stack as such text."""

_CALLS = ("call_function", "call_method", "call_module")


def describe_graph(
    owner: Any, *, number: int, inputs: Sequence[Any] | None = None, finished: bool = True
) -> Graph:
    """A graph module, or whatever else has a `graph`. `inputs`: the values that its placeholders stand for."""
    nodes = list(owner.graph.nodes)
    placeholders = [node for node in nodes if node.op == "placeholder"]
    values = (
        list(inputs)
        if inputs is not None and len(inputs) == len(placeholders)
        else [None] * len(placeholders)
    )
    taken = [_input(node, value) for node, value in zip(placeholders, values, strict=True)]
    held = [_attribute(owner, node) for node in nodes if node.op == "get_attr"]
    return Graph(
        number=number,
        inputs=(*taken, *(one for one in held if one is not None)),
        ops=tuple(_ops(owner, nodes)),
        outputs=tuple(_outputs(nodes)),
        symbols=tuple(_symbols(placeholders)),
        finished=finished,
    )


def _ops(owner: Any, nodes: Sequence[Any], within: str = "") -> Iterator[Op]:
    for node in nodes:
        if node.op in _CALLS:
            yield Op(
                name=str(node.name),
                target=target_name(node),
                stack=parse_stack(node.meta.get("stack_trace")),
                output=describe_tensor(_value(node)),
                within=within,
            )
        elif node.op == "get_attr":
            inner = _held(owner, str(node.target))
            if _is_graph(inner):
                yield from _ops(inner, list(inner.graph.nodes), str(node.target))


def target_name(node: Any) -> str:
    """What a node calls, as a user would look for it."""
    target = node.target
    if node.op == "call_method":
        return f"Tensor.{target}"
    if node.op == "call_module" or isinstance(target, str):
        return str(target)
    if type(target).__name__ in ("OpOverload", "OpOverloadPacket", "HigherOrderOperator"):
        return str(target)
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", None)
    if name is None:
        return str(target)
    torch = features.module("torch")
    if getattr(torch, name, None) is target:
        return f"torch.{name}"
    return name if module in (None, "builtins") else f"{str(module).lstrip('_')}.{name}"


def parse_stack(text: Any) -> tuple[UserFrame, ...]:
    """The lines that a node came from, outermost first; torch's own are left out where there are others."""
    found = []
    for line in str(text or "").splitlines():
        match = _STACK_LINE.match(line)
        if match is not None:
            found.append(failures.user_frame(match["file"], int(match["line"]), match["function"] or ""))
    return tuple(users(found))


def users(frames: Sequence[UserFrame]) -> list[UserFrame]:
    """A stack without torch's own lines, unless there are no others."""
    own = [one for one in frames if failures.torch_file(one.file) is None]
    return own or list(frames)


def describe_tensor(value: Any) -> TensorInfo | None:
    """A tensor, real or fake; None for anything else."""
    torch = features.module("torch")
    if not isinstance(value, torch.Tensor):
        return None
    return TensorInfo(
        dtype=str(value.dtype).removeprefix("torch."),
        shape=tuple(str(size) for size in value.shape),
        device=str(value.device),
        requires_grad=bool(value.requires_grad),
    )


def _value(node: Any) -> Any:
    """What a node computes, as Dynamo noted it down."""
    return node.meta.get("example_value", node.meta.get("val"))


def _input(node: Any, given: Any) -> GraphInput:
    value = _value(node)
    kind, type_name = _kind(value if value is not None else given, given)
    return GraphInput(
        name=str(node.name),
        kind=kind,
        source=_source(node),
        type=type_name,
        tensor=describe_tensor(value),
        value=str(value) if kind == "number" else "",
    )


def _kind(value: Any, given: Any) -> tuple[str, str]:
    torch = features.module("torch")
    for one in (given, value):
        if isinstance(one, torch.nn.Parameter):
            return "parameter", "Parameter"
        if isinstance(one, torch.nn.Buffer):
            return "buffer", "Buffer"
    name = type(given if given is not None else value).__name__
    if isinstance(value, torch.Tensor):
        return "tensor", "Tensor" if name == "FakeTensor" else name
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, bool, int, float)):
        return "number", name
    return "other", "" if value is None else name


def _source(node: Any) -> str:
    """Where a call takes the input from, as an expression: L['x']."""
    found = getattr(node.meta.get("grapharg"), "source", None) or getattr(node, "_dynamo_source", None)
    return "" if found is None else source_name(found)


def source_name(one: Any) -> str:
    """A source's expression; `name` is a method before torch 2.10."""
    name = getattr(one, "name", "")
    return str(name() if callable(name) else name)


def _attribute(owner: Any, node: Any) -> GraphInput | None:
    """A tensor that the graph holds itself; its subgraphs are not inputs."""
    value = _held(owner, str(node.target))
    if _is_graph(value):
        return None
    tensor = describe_tensor(value)
    return GraphInput(str(node.name), "attribute", str(node.target), type(value).__name__, tensor)


def _held(owner: Any, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part, None)
    return owner


def _is_graph(value: Any) -> bool:
    return isinstance(value, features.module("torch.fx").GraphModule)


def _outputs(nodes: Sequence[Any]) -> Iterator[GraphInput]:
    for node in nodes:
        if node.op == "output":
            for one in node.all_input_nodes:
                value = _value(one)
                kind, type_name = _kind(value, None)
                number = str(value) if kind == "number" else ""
                yield GraphInput(str(one.name), kind, "", type_name, describe_tensor(value), number)


def _symbols(placeholders: Sequence[Any]) -> list[Symbol]:
    torch = features.module("torch")
    found: dict[str, Symbol] = {}
    for node in placeholders:
        value = _value(node)
        sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
        for size in sizes:
            if isinstance(size, (torch.SymInt, torch.SymFloat)):
                _note_symbols(size.node, found)
    return list(found.values())


def _note_symbols(node: Any, found: dict[str, Symbol]) -> None:
    """The symbols of one size, with what the shape environment knows of them."""
    environment, expression = getattr(node, "shape_env", None), getattr(node, "expr", None)
    for symbol in sorted(getattr(expression, "free_symbols", ()), key=str):
        if str(symbol) in found:
            continue
        alone = expression == symbol
        hint = getattr(node, "hint", None) if alone else None
        sources = getattr(environment, "var_to_sources", {}).get(symbol, ())
        found[str(symbol)] = Symbol(
            name=str(symbol),
            hint="" if hint is None else str(hint),
            range=_range(environment, symbol),
            sources=tuple(source_name(one) for one in sources),
        )


def _range(environment: Any, symbol: Any) -> str:
    known = getattr(environment, "var_to_range", {}).get(symbol)
    return "" if known is None else f"[{known.lower}, {known.upper}]"


def describe_inlined(codes: Sequence[CodeType], root: CodeType | None) -> tuple[Inlined, ...]:
    """Each function that was traced into a frame, without the frame itself."""
    counted: dict[CodeType, int] = {}
    for code in codes:
        if code is not root:
            counted[code] = counted.get(code, 0) + 1
    return tuple(
        Inlined(
            function=source.qualified_name(code),
            file=failures.torch_file(code.co_filename) or code.co_filename,
            line=code.co_firstlineno,
            last_line=last_line(code),
            times=times,
            of_torch=failures.torch_file(code.co_filename) is not None,
        )
        for code, times in counted.items()
    )


def last_line(code: CodeType) -> int:
    """The last line that a code object has instructions for."""
    return max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
