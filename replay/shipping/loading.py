"""What one load carries from object to object: the sources, the modules made, and how to undo everything.

The builders (in the same rooms as their reducers) are the functions that the stream calls; each gets the
`Loading` first. Their names are part of the bundle format, the rooms that they stand in are not. Nothing here
knows any kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol, TypeVar

from replay.recording import Missing

F = TypeVar("F", bound=Callable[..., Any])
BUILDERS: dict[str, Callable[..., Any]] = {}


def builder(function: F) -> F:
    """Let the stream call `function`, with the `Loading` before the recorded arguments; names must be unique."""
    if function.__name__ in BUILDERS:
        raise ValueError(f"two builders are called {function.__name__}; give one another name")
    BUILDERS[function.__name__] = function
    return function


def is_builder(module: str, name: str) -> bool:
    """Whether a stream that looks up this name gets one of our builders; the room that it names does not count."""
    return module.startswith("replay.shipping.") and name in BUILDERS


class TensorSource(Protocol):
    """Gives back what a `TensorSink` took."""

    def get(self, key: str) -> Any:
        """The tensor that the sink returned this key for."""

    def get_storage(self, key: str) -> Any:
        """The untyped storage that the sink returned this key for."""

    def device(self, name: str) -> str:
        """Where a device of the recording is found here."""


@dataclass(slots=True)
class Loading:
    """The state of one load, and of the time in which its values are used."""

    sources: Mapping[str, str]
    tensors: TensorSource
    undo: ExitStack
    main: str = "__main__"
    missing: list[Missing] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    modules: dict[str, ModuleType] = field(default_factory=dict)  # the synthetic ones
    lost: list[tuple[str, str, str]] = field(default_factory=list)  # name, type, reason, by number
    made: set[int] = field(default_factory=set)  # ids of the classes made here
    last: list[Callable[[], None]] = field(default_factory=list)  # to do when all is filled
    keep: list[Any] = field(default_factory=list)  # what only weak references hold
    complete: bool = False

    def touch(self, name: str) -> None:
        """Note that the frame asked for something that is not there."""
        if name not in self.touched:
            self.touched.append(name)

    def miss(self, name: str, kind: str, reason: str) -> None:
        """Note that something that was recorded cannot be made here."""
        entry = Missing(name, kind, reason)
        if entry not in self.missing:
            self.missing.append(entry)
