"""A backend that `--backend` takes, as plain data. What backends there are is for `torch_adapter.backends` to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Group = Literal["compilers", "debugging", "testing only", "others"]


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """One line of `--backend help`."""

    name: str
    group: Group
    words: str  # what it does; of one that we do not know, the module that it comes from
    lacks: str = ""  # a package that is not here, or arguments that no name can give
