"""The unpickler: the C unpickler, with our builders bound to the load, and absent packages made missing.

It runs what the stream says; whether a bundle may be trusted to do so is decided elsewhere.
"""

from __future__ import annotations

import functools
import io
import pickle
from typing import Any

from replay.shipping.loading import BUILDERS, Loading
from replay.shipping.placeholders import missing_type

RENAMED = {
    ("enum", "EnumType"): ("enum", "EnumMeta"),  # so named since Python 3.11; the old name still works
}


class Unshipper(pickle.Unpickler):
    """Reads the object graphs of one stream, which share their memo."""

    def __init__(self, values: bytes, loading: Loading) -> None:
        super().__init__(io.BytesIO(values))
        self._loading = loading

    def find_class(self, module: str, name: str) -> Any:
        """One of our builders, or what an installed module has under this name."""
        module, name = RENAMED.get((module, name), (module, name))
        builder = BUILDERS.get((module, name))
        if builder is not None:
            return functools.partial(builder, self._loading)
        try:
            return super().find_class(module, name)
        except Exception as error:  # the package is absent, broken, or another version
            return missing_type(self._loading, module, name, f"{type(error).__name__}: {error}")
