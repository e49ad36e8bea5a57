"""Look at the user's tensors without the user's modes seeing it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from replay.torch_adapter import features


@contextmanager
def undisturbed() -> Iterator[None]:
    """No function mode, dispatch mode or gradient of the user's sees what happens inside."""
    torch = features.module("torch")
    dispatch = features.module("torch.utils._python_dispatch")
    with ExitStack() as stack:
        stack.enter_context(features.require(dispatch, "_disable_current_modes")())
        stack.enter_context(features.require(features.require(torch, "_C"), "DisableTorchFunction")())
        stack.enter_context(torch.no_grad())
        yield
