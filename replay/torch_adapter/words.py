"""Short texts for values that a guard looks at. No code of the user's runs: no repr of an unknown object."""

from __future__ import annotations

import enum
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from replay.torch_adapter import expressions, features
from replay.torch_adapter.undisturbed import undisturbed

LENGTH = 60
"""Characters of a value that are kept."""

ITEMS = 8
"""Items of a container that are shown."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), range, slice)

_SIZED: tuple[Any, ...] = (list, tuple, dict, set, frozenset)


def told(value: Any) -> str:
    """A plain value as Python writes it; of all else what it is. Empty where the value is not known."""
    return _clipped(_text(value))


def type_name(value: Any) -> str:
    """The class's own name; "absent" or empty where there is no value."""
    if value is expressions.ABSENT:
        return "absent"
    return "" if value is expressions.UNKNOWN else type(value).__qualname__


def length(value: Any) -> int | None:
    """Of Python's own containers; None for all else."""
    for kind in _SIZED:
        if isinstance(value, kind):
            return int(kind.__len__(value))
    return None


def _text(value: Any) -> str:
    kind = type(value)
    if value is expressions.ABSENT:
        return "absent"
    if value is expressions.UNKNOWN:
        return ""
    if kind in _PLAIN:
        return repr(value) if kind is not int or abs(value) < 10**LENGTH else "a large int"
    if kind in _SIZED:
        return _container(value)
    return _code_text(value) or _object_text(value)


def _container(value: Any) -> str:
    """What is in it where that is little and plain, else how much."""
    items = [*value, *(value.values() if type(value) is dict else ())]
    if not items or len(items) > ITEMS or any(type(one) not in _PLAIN for one in items):
        return f"{type(value).__name__} of {len(value)}"
    if type(value) is dict:
        return "{" + ", ".join(f"{_text(key)}: {_text(one)}" for key, one in value.items()) + "}"
    texts = [_text(one) for one in value]
    if type(value) in (set, frozenset):
        return "{" + ", ".join(sorted(texts)) + "}"
    return f"[{', '.join(texts)}]" if type(value) is list else f"({', '.join(texts)})"


def _code_text(value: Any) -> str:
    """Of code: its name and where it is."""
    if isinstance(value, MethodType):
        return f"method {_code_text(value.__func__).removeprefix('function ')}"
    if isinstance(value, BuiltinFunctionType):
        return f"function {value.__name__}"
    if isinstance(value, type):
        return f"class {value.__qualname__}"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    code = value.__code__ if isinstance(value, FunctionType) else value
    if not isinstance(code, CodeType):
        return ""
    return f"function {code.co_name} at {PurePath(code.co_filename).name}:{code.co_firstlineno}"


def _object_text(value: Any) -> str:
    torch = features.module("torch")
    if isinstance(value, torch.Tensor):
        with undisturbed():
            return tensor(value)
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.__dict__.get('_name_', '?')}"
    if type(value) in (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size):
        return str(value)
    return f"{type(value).__qualname__} object"


def tensor(value: Any) -> str:
    """`float32[2, 3] cpu`, with what else the guards look at."""
    name = str(value.dtype).removeprefix("torch.")
    wants = ", requires_grad" if value.requires_grad else ""
    return f"{name}{list(map(str, value.shape))} {value.device}{wants}".replace("'", "")


def _clipped(text: str) -> str:
    return text if len(text) <= LENGTH else text[: LENGTH - 1] + "…"
