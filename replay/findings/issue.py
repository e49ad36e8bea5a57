"""Frozen data: the text of a bug report that was made of a bundle, and what belongs to it."""

from __future__ import annotations

from dataclasses import dataclass

from replay.findings.export import Export
from replay.findings.triage import Triage

LARGEST_ATTACHMENT = 25 * 1024 * 1024
"""Bytes: GitHub takes .zip attachments up to 25 MB
(docs.github.com, "Attaching files")."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """The bundle under a name that GitHub takes."""

    name: str  # "x.rec.zip"
    size: int  # bytes
    path: str = ""  # where it was copied to; empty: nowhere

    @property
    def fits(self) -> bool:
        """Whether GitHub takes it."""
        return self.size <= LARGEST_ATTACHMENT


@dataclass(frozen=True, slots=True)
class Issue:
    """A bug report, as PyTorch's form for torch.compile asks for it."""

    bundle: str
    title: str
    text: str  # Markdown
    attachment: Attachment
    triage: Triage | None = None  # None: not asked for, or it could not be made
    export: Export | None = None  # None: the same
    notes: tuple[str, ...] = ()  # what a sender should know
    path: str = ""  # where it was written; empty: nowhere
