"""Frozen data: what leaves the machine with a bundle. Nothing here looks into one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "sources",  # files of the user's, with their comments
    "tensors",  # values of tensors: real ones
    "values",  # texts, numbers and bytes in values.pkl
    "error",  # message and traceback
    "inputs",  # the values of arguments that the manifest shows
    "paths",  # directories of the user's machine
    "people",  # user names, host names, e-mail addresses
    "variables",  # environment variables
    "settings",  # config and global state
    "packages",
    "machine",
]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that leaves."""

    name: str  # a file, a storage, a variable
    detail: str  # what it is, in words; never a secret in full
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Leaving:
    """Things of one kind, the largest first."""

    kind: Kind
    summary: str
    size: int  # bytes of all of them
    items: tuple[Item, ...] = ()
    more: int = 0  # items beyond those that are kept


@dataclass(frozen=True, slots=True)
class Secret:
    """What looks like a key, a password, an address: the detector's word for it, and where."""

    kind: str  # "GitHub Token"
    where: str  # "/home/ann/train.py:12", "values.pkl", "environment.variables.TOKEN"
    shown: str  # its first characters; never the whole


@dataclass(frozen=True, slots=True)
class Privacy:
    """All that leaves the machine with a bundle, by kind and size."""

    bundle: str
    size: int  # of the file, in bytes
    leaving: tuple[Leaving, ...]
    secrets: tuple[Secret, ...]
    detector: (
        str  # its name and version; empty: there is none here, so that only well-known forms were looked for
    )
    unread: tuple[str, ...] = ()  # what could not be read, in words
    more: int = 0  # secrets beyond those that are kept
