"""Frozen data: a program that was made of a bundle, in parts that are texts, and what came of checking it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of the user's own text, verbatim, or of a closure's, in a function that gives it its variables."""

    file: str
    line: int  # 1-based, where it begins in the file
    name: str
    text: str
    definition: bool = True  # a function or a class: blank lines go around it


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of those that call the frame."""

    text: str
    contexts: tuple[str, ...] = ()  # what it stands in: "torch.no_grad()"


@dataclass(frozen=True, slots=True)
class Program:
    """All that an exported file has, in its order. Every string but `variables` and `notes` is Python."""

    imports: tuple[str, ...] = ()
    early: tuple[str, ...] = ()  # values that the user's code needs when it is defined
    code: tuple[Excerpt, ...] = ()
    rebuilds: bool = False  # some objects are made without their constructors
    settings: tuple[str, ...] = ()  # config and global state
    values: tuple[str, ...] = ()  # globals and arguments
    steps: tuple[Step, ...] = ()  # earlier calls, and the one that fails
    variables: Mapping[str, str] = field(default_factory=dict)  # of the environment, before torch is imported
    seeded: bool = False  # some values are random
    notes: tuple[str, ...] = ()  # what is other than in the recording


@dataclass(frozen=True, slots=True)
class Check:
    """What came of running an exported file: once under the recorder's hooks, once in a clean process."""

    same: bool  # the recorded failure happened in both
    reason: str = ""  # why not
    fingerprint: str = ""  # of the failure that was seen
    torch: str = ""  # the version that it was run with
    ran: bool = True  # false: this machine cannot run it


@dataclass(frozen=True, slots=True)
class Export:
    """A file made of a bundle."""

    bundle: str
    text: str
    check: Check
    kind: Literal["python", "notebook"] = "python"
    path: str = ""  # where it was written; empty: nowhere
    seconds: float = 0.0

    @property
    def verified(self) -> bool:
        """Whether the recorded failure came out of the file itself."""
        return self.check.same
