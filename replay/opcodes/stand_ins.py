"""Frozen data: what stands for an object that the stream would make, and what a stream does, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Name:
    """What the stream looks up: `name` in `module`, importing it."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, slots=True)
class Made:
    """What a call returns; the function where its name is known, and the arguments as far as they are."""

    function: Name | None
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """An object of which the opcodes do not say what it is, or which nobody needs."""


UNKNOWN: Final = Unknown()
Value: TypeAlias = Any
"""A stand-in: `str`, `bytes`, `Name`, `Made`, `Unknown`, or a tuple of these; no tuple lies deeper than in a tuple."""

Kind = Literal["name", "call", "make", "change", "text", "unknown", "end", "numbers"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that the stream does.

    name     looks up the `Name` in `subject`
    call     calls `subject` with `arguments`
    make     makes an object of the class `subject` with its `__new__`
    change   sets attributes or items of `subject`
    text     holds the text or bytes in `subject`
    unknown  does something that only running it would show; `subject` says what, in words
    end      the reader stopped before the end of the stream; `subject` says why, in words
    numbers  the last step of a stream that was read to its end: `subject` counts the numbers in it
    """

    kind: Kind
    subject: Value
    arguments: tuple[Value, ...] = ()
    position: int = 0  # in the stream, in bytes
