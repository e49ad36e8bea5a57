"""What models return: a dictionary, a dataclass and a tuple in one."""

from collections import OrderedDict
from dataclasses import dataclass, fields

import torch
import torch.utils._pytree as pytree


class ModelOutput(OrderedDict):
    """Keys are the fields that are not None."""

    def __init_subclass__(cls):
        pytree.register_pytree_node(
            cls,
            lambda output: (list(output.values()), list(output.keys())),
            lambda values, keys: cls(**dict(zip(keys, values, strict=True))),
        )

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


@dataclass
class BaseOutput(ModelOutput):
    """Hidden states."""

    last_hidden: torch.Tensor | None = None
    states: tuple[torch.Tensor, ...] | None = None
    attentions: tuple[torch.Tensor, ...] | None = None
