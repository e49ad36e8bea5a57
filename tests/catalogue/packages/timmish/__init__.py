"""Models by name."""

from .net import MiniNet as MiniNet
from .registry import create_model, list_models

__all__ = ["create_model", "list_models"]
