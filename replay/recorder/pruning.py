"""What of large modules and objects the bundle does without: what the frame's code cannot reach.

Only what costs bytes or tells secrets is left out; a small number or text stays. What the code can reach is
found by `reach`; how something is left out is the business of `replay.shipping`.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Mapping, Set
from types import BuiltinFunctionType, FunctionType
from typing import Any

from replay.recorder import frames
from replay.recorder.reach import ATOMS, Reach
from replay.shipping.policy import Policy
from replay.torch_adapter import anatomy, hooks, objects

LIGHT = 1024
"""Bytes of tensors and texts up to which something is not worth leaving out."""
FEW = 64
"""Objects up to which a container of plain values is not worth leaving out."""

_DEFAULT_STATE = ("__reduce__", "__reduce_ex__", "__getstate__", "__getattribute__")
_CUSTOM = (
    "__getattr__",
    "__setstate__",
    "__dataclass_fields__",
    "__attrs_attrs__",
    "__pydantic_fields__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__torch_function__",
)


log = logging.getLogger("replay")


class Pruning:
    """Says of each object which of its attributes are left out."""

    def __init__(self, *reaches: Reach) -> None:
        """What none of them reaches is left out of what one of them does reach."""
        self._reaches = reaches
        self._heavy: dict[int, bool] = {}

    def __call__(self, value: object) -> Set[str]:
        """Names of attributes; of a module also of submodules, parameters and buffers."""
        reaches = [one for one in self._reaches if id(value) in one.objects]
        if not reaches or any(one.anything or id(value) in one.whole for one in reaches):
            return frozenset()
        return frozenset(
            name
            for name, held in anatomy.attributes(value).items()
            if name != "forward" and not any(name in one.names for one in reaches) and self._is_heavy(held)
        )

    def nbytes(self, value: object) -> int:
        """Bytes of the tensors in something that is left out."""
        return _nbytes(value)

    def _is_heavy(self, value: object) -> bool:
        if type(value) in ATOMS and type(value) not in (str, bytes, bytearray):
            return False
        found = self._heavy.get(id(value))
        if found is None:
            found = self._heavy[id(value)] = _weigh(value) is None
        return found


def of(root: Mapping[str, Any], attempt: hooks.Attempt, ship: Iterable[str] = ()) -> Pruning:
    """The pruning of what a bundle is to hold: `root`, as `capture` puts it together.

    What the frame's code names is one thing; the backend is handed graphs, and names what it asks of these.
    Where this cannot be told, nothing is left out.
    """
    try:
        return Pruning(*_reaches(root, attempt, Policy(frozenset(ship))))
    except Exception as error:  # noqa: BLE001 - a user's object that resists
        log.debug("nothing is left out: %s: %s", type(error).__name__, error)
        return Pruning()


def _reaches(root: Mapping[str, Any], attempt: hooks.Attempt, policy: Policy) -> tuple[Reach, Reach]:
    kinds: dict[type, bool] = {}

    def divisible(value: Any) -> bool:
        cls = type(value)
        if cls not in kinds:
            kinds[cls] = _is_divisible(cls, policy)
        return kinds[cls] and not (anatomy.is_module(value) and anatomy.hooks(value))

    reach, beside = Reach(divisible), Reach(divisible)
    names = frames.argument_names(attempt.code)
    _add_call(reach, root["function"], root["arguments"], names)
    for call in root["calls"]:
        _add_arguments(reach, call["arguments"], names)
    chain = root["chain"]
    if chain is not None:
        _add_call(
            reach, chain["function"], chain["arguments"], frames.argument_names(chain["function"].__code__)
        )
    for key, value in root.items():
        if key not in ("function", "arguments", "calls", "chain"):
            beside.add(value)
    return reach, beside


def _add_call(reach: Reach, function: FunctionType, arguments: frames.Arguments, names: Any) -> None:
    reach.add(function)
    _add_arguments(reach, arguments, names)


def _add_arguments(reach: Reach, arguments: frames.Arguments, names: tuple[str, ...]) -> None:
    positional, keywords = arguments
    for at, value in enumerate(positional):
        reach.add(value, names[at] if at < len(names) else None)
    for name, value in keywords.items():
        reach.add(value, name if name in names else None)


def _is_divisible(cls: type, policy: Policy) -> bool:
    """Whether code reaches the attributes of objects of this class by their names only."""
    if anatomy.is_module_class(cls):
        return anatomy.is_plain_module_class(cls)
    return (
        policy.by_value(cls.__module__)
        and all(getattr(cls, name, None) is getattr(object, name, None) for name in _DEFAULT_STATE)
        and not any(hasattr(cls, name) for name in _CUSTOM)
        and not issubclass(cls, (BaseException, enum.Enum, type))
        and cls.__basicsize__ == _Plain.__basicsize__
        and objects.pytree_registration(cls) is None
    )


class _Plain:
    """An object with a `__dict__` and nothing else."""


def _weigh(value: Any, depth: int = 4) -> int | None:
    """About how many bytes something small takes; None: it is not small, or not plain."""
    total, few = 0, FEW
    waiting = [(value, depth)]
    while waiting:
        one, left = waiting.pop()
        few -= 1
        if type(one) in (str, bytes, bytearray):
            total += len(one)
        elif anatomy.is_tensor(one):
            total += anatomy.tensor_nbytes(one)
        elif type(one) in (list, tuple, set, frozenset, dict) and left:
            if len(one) > FEW:
                return None
            items = [*one, *one.values()] if type(one) is dict else list(one)
            waiting += [(item, left - 1) for item in items]
        elif anatomy.is_module(one) and left and type(one).__module__.startswith("torch.nn."):
            waiting += [(held, left - 1) for held in anatomy.attributes(one).values()]
        elif type(one) not in ATOMS and not _is_by_name(one):
            return None
        if total > LIGHT or few < 0:
            return None
    return total


def _is_by_name(value: Any) -> bool:
    return issubclass(type(value), (enum.Enum, BuiltinFunctionType)) or anatomy.is_torchs(value)


def _nbytes(value: Any) -> int:
    seen: set[int] = set()
    total, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or type(one) in ATOMS:
            continue
        seen.add(id(one))
        if anatomy.is_tensor(one):
            total += anatomy.tensor_nbytes(one)
        elif type(one) in (list, tuple):
            waiting += one
        elif type(one) is dict:
            waiting += one.values()
        elif anatomy.is_module(one):
            waiting += anatomy.attributes(one).values()
    return total
