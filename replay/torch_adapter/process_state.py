"""State of the process that guards look at, by torch's names for it, as short texts. Sets nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from replay.torch_adapter import features

PREFIX = "GLOBAL_STATE changed:"
"""How torch's check begins to say what differs (torch/csrc/dynamo/guards.cpp)."""

_NAMES = re.compile(r"\w+(?:\([^)]*\)\w*)?")


def read() -> dict[str, str]:
    """Each that can be read here."""
    return {name: text for name, look in _READERS.items() if (text := _look(look))}


def _look(look: Callable[[Any], Any]) -> str:
    try:
        return str(look(features.module("torch")))
    except (AttributeError, RuntimeError, TypeError):  # another torch has it otherwise
        return ""


def _autocast(torch: Any) -> str:
    kinds = ("cpu", "cuda")
    on = [f"{kind} {torch.get_autocast_dtype(kind)}" for kind in kinds if torch.is_autocast_enabled(kind)]
    return ", ".join(on).replace("torch.", "") or "off"


def _modes(torch: Any) -> str:
    found = features.require(torch.overrides, "_get_current_function_mode_stack")()
    return ", ".join(type(one).__qualname__ for one in found) or "none"


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "grad_mode": lambda torch: torch.is_grad_enabled(),
    "inference_mode": lambda torch: torch.is_inference_mode_enabled(),
    "autocast": _autocast,
    "torch_function": lambda torch: torch._C._is_torch_function_enabled(),
    "deterministic_algorithms": lambda torch: torch.are_deterministic_algorithms_enabled(),
    "deterministic_algorithms_warn_only": lambda torch: torch.is_deterministic_algorithms_warn_only_enabled(),
    "num_threads": lambda torch: torch.get_num_threads(),
    "default_dtype": lambda torch: str(torch.get_default_dtype()).removeprefix("torch."),
    "default_device": lambda torch: torch.utils._device.CURRENT_DEVICE,
    "function_modes": _modes,
}


def changed(reason: str) -> list[str]:
    """The names in torch's reason."""
    found = _NAMES.findall(reason.partition(PREFIX)[2])
    return list(dict.fromkeys(name.partition("(")[0] for name in found))
