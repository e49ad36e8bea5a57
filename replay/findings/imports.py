"""Frozen data: what loading a bundle's values would import and call, as their opcodes say. Nothing here reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Group = Literal["replay", "torch", "standard library", "user", "other"]
"""Whose a name is; `user`: of a module that travels in the bundle, `other`: of an installed package."""


@dataclass(frozen=True, slots=True)
class Imported:
    """One name that the stream looks up, or a whole module that it imports."""

    module: str
    name: str  # "" for a whole module
    group: Group
    called: int  # times that loading calls it
    power: str = ""  # what its caller can do ("run commands"); empty: nothing that this reader knows of

    @property
    def full_name(self) -> str:
        """`module.name`, or the module."""
        return f"{self.module}.{self.name}" if self.name else self.module


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something in the stream that replay's own writer does not write."""

    what: str  # "calls os.system('id')"
    why: str  # "it can run commands"
    position: int  # in values.pkl, in bytes; of what is nested in it, where that begins


@dataclass(frozen=True, slots=True)
class Code:
    """Functions that travel in the values."""

    file: str  # as code objects call it; "" for bytecode, which names no file that can be read here
    functions: tuple[str, ...]
    kind: Literal["source", "bytecode"]


@dataclass(frozen=True, slots=True)
class Imports:
    """What loading the values would import and call."""

    bundle: str
    size: int | None  # bytes of values.pkl; None: the bundle has none
    names: tuple[Imported, ...]
    alarms: tuple[Alarm, ...]
    code: tuple[Code, ...]
    unread: str = ""  # why reading ended before the stream did; empty: it was read to its end
    more: int = 0  # names and alarms beyond those that are kept
