"""What a program tells Dynamo about one tensor or one call: dynamic dimensions, a stance. Of torch's own names only."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from replay.torch_adapter import features


def mark_dynamic(tensor: Any, dimension: int) -> None:
    """Make a dimension a symbol from the first compilation on; torch raises where the code needs one size."""
    features.require(features.module("torch._dynamo"), "mark_dynamic")(tensor, dimension)


def mark_unbacked(tensor: Any, dimension: int) -> None:
    """The same, and no code may depend on how large it is."""
    features.require(features.module("torch._dynamo.decorators"), "mark_unbacked")(tensor, dimension)


def stance(name: str) -> AbstractContextManager[Any]:
    """One of torch's stances, for a while."""
    context: AbstractContextManager[Any] = features.module("torch").compiler.set_stance(name)
    return context
