"""The base of all models, and what they share."""

import functools
import logging
from collections.abc import MutableMapping

import torch
from torch import nn

from .configuration import Config

logger = logging.getLogger(__name__)


class Functions(MutableMapping):
    """A table of functions with defaults that all instances share."""

    _shared = {}

    def __init__(self):
        self._own = {}

    def __getitem__(self, key):
        return self._own[key] if key in self._own else self._shared[key]

    def __setitem__(self, key, value):
        self._own[key] = value

    def __delitem__(self, key):
        del self._own[key]

    def __iter__(self):
        return iter({**self._shared, **self._own})

    def __len__(self):
        return len(self._shared | self._own)

    @classmethod
    def register(cls, key, value):
        cls._shared[key] = value


ATTENTION = Functions()


def can_return_tuple(function):
    """Turn the output into a tuple if asked."""

    @functools.wraps(function)
    def wrapper(self, *args, **kwargs):
        chosen = kwargs.pop("return_dict", None)
        output = function(self, *args, **kwargs)
        if not (self.config.return_dict if chosen is None else chosen):
            return output.to_tuple()
        return output

    return wrapper


def windowed(module, x):
    """A registered attention."""
    weights = (x @ x.T).softmax(-1)
    return weights @ module.proj(x), weights


Functions.register("windowed", windowed)


class Mixin:
    """Properties of the parameters."""

    @property
    def dtype(self):
        return next(parameter.dtype for parameter in self.parameters())


class PreTrained(nn.Module, Mixin):
    """Knows its config."""

    config_class: type[Config] | None = None
    base_model_prefix = ""

    def __init__(self, config: Config, *inputs):
        super().__init__()
        if not isinstance(config, Config):
            raise TypeError(type(config))
        self.config = config
        self.name_or_path = getattr(config, "name_or_path", "")

    def post_init(self):
        for module in self.modules():
            if isinstance(module, nn.Linear):
                torch.nn.init.ones_(module.weight)
