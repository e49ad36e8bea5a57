"""Frozen data: a bundle with less in it, and whether its failure survived. Nothing here strips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from replay.findings.privacy import Privacy
from replay.recording import Outcome

Survival = Literal["survived", "lost", "unknown", "unchecked"]
"""`lost`: the stripped bundle does otherwise than the original does here; `unknown`: this machine cannot tell."""


@dataclass(frozen=True, slots=True)
class Stripped:
    """The bundle without what was to go."""

    bundle: str  # the new file
    original: str
    size: int  # bytes of the new file
    original_size: int
    removed: tuple[str, ...]  # what went, in words: "the values of 3 storages (1.2 MB)"
    kept: tuple[str, ...]  # what was to go and could not, in words
    survival: Survival
    outcome: Outcome | None  # of the stripped bundle's replay; None: it was not replayed
    reason: str  # why the survival is not known, or what came instead
    left: Privacy  # what still leaves the machine with it
