"""What this torch can do. The only place that compares versions, and the one that says "not supported".

Nothing here changes torch. A private name is asked for through `require`, so that a rename becomes an
`UnsupportedTorchError` with the name in it, never a patch that silently does nothing.
"""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType
from typing import Any

from replay.errors import MissingError, UnsupportedTorchError

DYNAMO = "torch._dynamo"
"""The module that everything which compiles imports."""

OLDEST = (2, 9)
"""The oldest torch that the hooks were checked on."""

HOOK_PARAMETERS = ("self", "frame", "cache_entry", "hooks", "frame_state")
"""Leading parameters of ConvertFrame.__call__ and ConvertFrameAssert.__call__, torch 2.9 to 2.13."""


def version() -> tuple[int, int]:
    """Major and minor version of the installed torch."""
    text = str(module("torch").__version__)
    match = re.match(r"(\d+)\.(\d+)", text)
    if match is None:
        raise UnsupportedTorchError(f"torch has the version {text!r}, which starts with no major.minor")
    return int(match[1]), int(match[2])


def module(name: str) -> ModuleType:
    """Import a module of torch.

    Raises MissingError without torch, UnsupportedTorchError where this torch has no such module.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "torch" and name == "torch":
            raise MissingError("torch is not installed here; install it to record or replay") from error
        raise UnsupportedTorchError(_message(name, str(error))) from error


def load() -> None:
    """Import torch with its compiler, and check the hooks. Raises MissingError or UnsupportedTorchError."""
    module("torch")
    module(DYNAMO)
    check_hooks()


def load_inductor() -> None:
    """Import what Inductor, and the backends that use its decompositions, import when they first compile."""
    module("torch._inductor.compile_fx")


def require(owner: Any, name: str) -> Any:
    """`getattr`, with an UnsupportedTorchError that names what is gone."""
    try:
        return getattr(owner, name)
    except AttributeError:
        where = getattr(owner, "__name__", None) or type(owner).__name__
        raise UnsupportedTorchError(_message(f"{where}.{name}", "it is gone")) from None


def check_hooks() -> None:
    """Raise UnsupportedTorchError unless the hooks that the recorder relies on look as we know them."""
    if version() < OLDEST:
        raise UnsupportedTorchError(
            _message("Dynamo", f"replay needs torch {OLDEST[0]}.{OLDEST[1]} or later")
        )
    convert_frame = module("torch._dynamo.convert_frame")
    for name in ("ConvertFrameAssert", "ConvertFrame"):
        _check_signature(require(convert_frame, name))


def _check_signature(owner: type) -> None:
    call = require(owner, "__call__")
    try:
        names = tuple(inspect.signature(inspect.unwrap(call)).parameters)
    except (TypeError, ValueError):
        names = ()
    if names[: len(HOOK_PARAMETERS)] != HOOK_PARAMETERS:
        raise UnsupportedTorchError(
            _message(f"torch._dynamo.convert_frame.{owner.__name__}.__call__", f"its parameters are {names}")
        )


def _message(name: str, what: str) -> str:
    torch_version = getattr(importlib.import_module("torch"), "__version__", "?")
    return (
        f"torch {torch_version} is not supported: {name}: {what}. "
        "Use a torch that replay supports, or a newer torch-replay."
    )
