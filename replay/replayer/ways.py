"""Going into the compiler the way that the recorded program went. What torch's ways are: `torch_adapter.entries`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from replay import shipping
from replay.errors import MissingError
from replay.torch_adapter import entries


def enter(
    entry: Mapping[str, Any], backend: Any
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The function to call instead of a compiled one, and its arguments. MissingError if something is absent."""
    for part in (entry["subject"], *entry["options"].values()):
        if isinstance(part, shipping.Placeholder):
            raise MissingError(f"what {entry['name']} was given: {part!r}")
    positional, keywords = entry["arguments"]
    return entries.again(entry["name"], entry["subject"], entry["options"], backend), positional, keywords
