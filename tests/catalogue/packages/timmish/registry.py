"""Builders by name."""

import fnmatch
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

_entrypoints: dict[str, Any] = {}
_modules: dict[str, set] = defaultdict(set)
_defaults: dict[str, "Settings"] = {}


@dataclass(frozen=True)
class Settings:
    """Of a pretrained model."""

    classes: int = 1000
    mean: tuple[float, ...] = (0.5,)


def register_model(function):
    """Register a builder, as a decorator."""
    module = sys.modules[function.__module__]
    name = function.__name__
    _entrypoints[name] = function
    _modules[module.__name__.split(".")[-1]].add(name)
    _defaults[name] = module.default_cfgs[name]
    return function


def list_models(pattern):
    """Names of models."""
    return sorted(fnmatch.filter(_entrypoints, pattern))


def create_model(name, **values):
    """Build it."""
    model = _entrypoints[name](**values)
    model.settings = replace(_defaults[name], classes=values.get("classes", 1000))
    return model
