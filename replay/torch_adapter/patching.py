"""Exchanging parts of torch for a while: attributes, and the call of the backend. What for, its callers know."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from replay.torch_adapter import features


@contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute for a while; UnsupportedTorchError if there is none."""
    before = features.require(owner, name)
    own = name in vars(owner)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextmanager
def wrapped_compiler(wrap: Callable[..., Any]) -> Iterator[None]:
    """Call `wrap(original, graph, gm, inputs)` where Dynamo calls the backend."""
    owner = features.require(features.module("torch._dynamo.output_graph"), "OutputGraph")
    original = features.require(owner, "call_user_compiler")

    @functools.wraps(original)
    def call_user_compiler(self: Any, gm: Any, example_inputs: Any) -> Any:
        return wrap(functools.partial(original, self), self, gm, example_inputs)

    with patched(owner, "call_user_compiler", call_user_compiler):
        yield
