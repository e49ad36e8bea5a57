"""Frozen data: in what two bundles differ. Nothing here compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Section = Literal["frame", "error", "compiled with", "config", "state", "environment", "inputs", "values"]


@dataclass(frozen=True, slots=True)
class Changed:
    """One thing that the manifests say otherwise."""

    section: Section
    name: str  # "message", "dynamo.suppress_errors", "x.shape"
    first: Any  # plain; None where the first bundle has nothing of that name
    second: Any
    only: Literal["", "first", "second"] = ""  # the one bundle that has it


@dataclass(frozen=True, slots=True)
class TextChange:
    """A source file whose text differs, or that only one bundle has."""

    file: str  # as the first bundle's code objects call it, or the second's where only that has it
    lines: tuple[str, ...]  # of a unified diff, without its head; none where they are too many to compare
    only: Literal["", "first", "second"] = ""


@dataclass(frozen=True, slots=True)
class Differences:
    """All in which two bundles differ, but for when and in which process they were written."""

    first: str  # paths
    second: str
    changes: tuple[Changed, ...]
    texts: tuple[TextChange, ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.changes and not self.texts
