"""Loads its parts when they are asked for."""

import sys

from .lazy import LazyModule

sys.modules[__name__] = LazyModule(
    __name__,
    globals()["__file__"],
    {"configuration": ["Config"], "outputs": ["ModelOutput"], "tiny": ["TinyConfig", "TinyModel"]},
    __spec__,
)
