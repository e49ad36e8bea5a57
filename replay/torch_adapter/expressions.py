"""What an expression of a guard's names in a frame: "L['self']._modules['a'].mode". Read without the user's code.

Plain attributes, items of Python's own containers, and the few functions that torch writes into such expressions.
Nothing is called that the user has written: no property, no `__getattr__`, no `__getitem__`.
"""

from __future__ import annotations

import ast
import functools
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from replay.torch_adapter import features
from replay.torch_adapter.undisturbed import undisturbed

ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "absent"})()
"""What stands for a value that is not there: no such attribute, key or item."""
UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda self: "not known"})()
"""What stands for a value that cannot be read without running code of the user's, or that torch names otherwise."""

_BUILTINS: Mapping[str, Callable[..., Any]] = {"type": type, "list": list, "dict": dict}
_SHAPE = ("size", "stride", "storage_offset", "dim", "numel")
"""Methods of a tensor's that such an expression calls."""
_ITEMS: tuple[Any, ...] = (OrderedDict, dict, list, tuple, deque, str, bytes, range, MappingProxyType)

_LISTED: tuple[type, ...] = (list, tuple, set, frozenset, dict, type({}.keys()), type(OrderedDict().keys()))
"""What may be made a list of without asking code of the user's."""


def read(expression: str, scope: Mapping[str, Any]) -> Any:
    """The value; ABSENT or UNKNOWN where there is none to show. `scope`: `L`, `G` and torch's own functions."""
    tree = _parsed(expression)
    if tree is None:
        return UNKNOWN
    try:
        return _value(tree, scope)
    except _UnknownError:
        return UNKNOWN
    except (AttributeError, LookupError):
        return ABSENT
    except Exception:  # noqa: BLE001 - of a function of torch's, over a value that it does not expect
        return UNKNOWN


class _UnknownError(Exception):
    """It cannot be read without running code of the user's."""


@functools.lru_cache(maxsize=8192)
def _parsed(expression: str) -> ast.expr | None:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, scope)
    if isinstance(node, ast.Tuple):
        return tuple(_value(one, scope) for one in node.elts)
    if isinstance(node, ast.Name):
        return scope[node.id] if node.id in scope else _BUILTINS[node.id]
    if isinstance(node, ast.Attribute):
        return _attribute(_value(node.value, scope), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(_value(node.value, scope), _value(node.slice, scope))
    if isinstance(node, ast.Call):
        return _called(node, scope)
    raise _UnknownError


def _attribute(owner: Any, name: str) -> Any:
    if isinstance(owner, ModuleType):
        return vars(owner)[name]
    if isinstance(owner, type):
        return type.__getattribute__(owner, name)
    declared = next((vars(one)[name] for one in type(owner).__mro__ if name in vars(one)), None)
    computed = isinstance(declared, property) or (
        isinstance(declared, functools.cached_property) and name not in vars(owner)
    )
    if computed and not _is_torchs(type(owner)):
        raise _UnknownError
    if isinstance(owner, features.module("torch").Tensor):
        with undisturbed():
            return object.__getattribute__(owner, name)
    try:
        return object.__getattribute__(owner, name)
    except AttributeError:
        return _held(owner, name)


def _held(owner: Any, name: str) -> Any:
    """A parameter, buffer or submodule, which torch's own `__getattr__` finds."""
    if isinstance(owner, features.module("torch").nn.Module):
        for kept in ("_parameters", "_buffers", "_modules"):
            held = owner.__dict__.get(kept, {})
            if name in held:
                return held[name]
    elif hasattr(type(owner), "__getattr__"):
        raise _UnknownError
    raise AttributeError(name)


def _item(owner: Any, key: Any) -> Any:
    for kind in _ITEMS:
        if isinstance(owner, kind):
            return kind.__getitem__(owner, key)
    raise _UnknownError


def _called(node: ast.Call, scope: Mapping[str, Any]) -> Any:
    if node.keywords:
        raise _UnknownError
    given = [_value(one, scope) for one in node.args]
    function = node.func
    if isinstance(function, ast.Attribute):
        owner = _value(function.value, scope)
        if isinstance(owner, features.module("torch").Tensor) and function.attr in _SHAPE:
            with undisturbed():
                return getattr(owner, function.attr)(*given)
        if owner is dict and function.attr in ("keys", "__getitem__"):
            return getattr(dict, function.attr)(*given)
        raise _UnknownError
    if not isinstance(function, ast.Name) or not (function.id.startswith("___") or function.id in _BUILTINS):
        raise _UnknownError
    if function.id == "list" and not all(type(one) in _LISTED for one in given):
        raise _UnknownError
    return _value(function, scope)(*given)


def _is_torchs(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "torch"
