"""The unpickler: the C unpickler, with our builders bound to the load, and absent packages made missing.

It runs what the stream says; whether a bundle may be trusted to do so is decided elsewhere.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from replay.errors import MissingError
from replay.shipping.loading import BUILDERS, Loading, is_builder
from replay.shipping.placeholders import missing_here, missing_type

RENAMED = {
    ("enum", "EnumType"): ("enum", "EnumMeta"),  # so named since Python 3.11; the old name still works
}

CLASS_BUILDERS = frozenset({"make_class", "make_enum", "make_named_tuple", "make_hidden_type"})


class Unshipper(pickle.Unpickler):
    """Reads the object graphs of one stream, which share their memo."""

    def __init__(self, values: bytes, loading: Loading) -> None:
        super().__init__(io.BytesIO(values))
        self._loading = loading

    def find_class(self, module: str, name: str) -> Any:
        """One of our builders, or what an installed module has under this name."""
        module, name = RENAMED.get((module, name), (module, name))
        if is_builder(module, name):
            return functools.partial(_call, BUILDERS[name], self._loading)
        try:
            return self._find(module, name)
        except Exception as error:  # noqa: BLE001 - the package is absent, broken, or another version
            return missing_type(self._loading, module, name, f"{type(error).__name__}: {error}")

    def _find(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except ModuleNotFoundError:
            top = module.partition(".")[0]
            if top == module or top not in sys.stdlib_module_names:
                raise
            return super().find_class(top, name)  # another Python has it in a private module: pathlib._local


def _call(build: Callable[..., Any], loading: Loading, *arguments: Any) -> Any:
    """What cannot be made here is missing, and the rest is loaded."""
    try:
        return build(loading, *arguments)
    except Exception as error:  # noqa: BLE001 - a device, a library, a class that this machine has not
        reason = str(error) if isinstance(error, MissingError) else f"{type(error).__name__}: {error}"
        if build.__name__ in CLASS_BUILDERS:
            return missing_type(loading, *_named_class(arguments), reason)
        return missing_here(loading, *_described(build.__name__, arguments), reason)


def _named_class(arguments: tuple[Any, ...]) -> tuple[str, str]:
    """Module and name of a class that could not be made."""
    skeleton = next((part for part in arguments if isinstance(part, dict) and "__qualname__" in part), {})
    names = [part for part in arguments if isinstance(part, str)]
    return skeleton.get("__module__", "an unknown module"), skeleton.get("__qualname__", names[0])


def _described(build: str, arguments: tuple[Any, ...]) -> tuple[str, str]:
    """Name and kind of what could not be made or filled: "Block.forward" and "function", "t3" and "tensor"."""
    kind = build.partition("_")[2].replace("_", " ")
    names = [part for part in arguments if isinstance(part, str)]
    if arguments and isinstance(arguments[0], (type, FunctionType)):
        names.insert(0, arguments[0].__qualname__)
    return (names[0] if names else f"a {kind}"), kind
