"""The child's side of a call: where it finds its request, leaves its answer, and says what it is about to do."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import msgpack

_directory: Path | None = None


def announce(phase: str) -> None:
    """In a child: note what it is about to do, so that a crash can be placed. Elsewhere: nothing."""
    if _directory is not None:
        (_directory / "phase").write_text(phase, encoding="utf-8")


def private_directory() -> Path | None:
    """In a child: a directory of its own that goes away with it. Elsewhere: None."""
    return _directory


def serve(directory: str, target: str) -> None:
    """Call `module:function` with the request that lies in the directory, and leave the answer there."""
    global _directory  # noqa: PLW0603 - of this process, set once
    _directory = Path(directory)
    request = msgpack.unpackb((_directory / "request").read_bytes(), strict_map_key=False)
    answer = msgpack.packb(find(target)(request))
    part = _directory / "answer.part"
    part.write_bytes(answer)
    part.rename(_directory / "answer")


def find(target: str) -> Callable[..., Any]:
    """The function that `module:function` names."""
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
