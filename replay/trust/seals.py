"""Seals: what the user's key says of a bundle's manifest, and so of all the code in the bundle.

A seal is an HMAC: who does not have the key can neither make one, nor learn from one who made it.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable
from typing import Protocol

from replay.errors import ReplayError
from replay.trust import key

_PURPOSE = b"torch-replay bundle\0"

log = logging.getLogger("replay")


class Sealed(Protocol):
    """What counts of a `replay.bundle.Bundle`."""

    @property
    def path(self) -> str:
        """The name that it was opened by."""

    @property
    def sealed(self) -> bytes:
        """The digest that its seal is for; empty where it has none."""

    @property
    def seal(self) -> str:
        """The seal; empty where it has none."""


def signer() -> Callable[[bytes], str] | None:
    """What makes the seal for a digest; None where there can be no key: recording goes on, without."""
    try:
        own = key.made()
    except (ReplayError, OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        log.info("replay: bundles are not sealed as your own: %s", error)
        return None
    return lambda digest: _seal(own, digest)


def successor_signer(bundle: Sealed) -> Callable[[bytes], str] | None:
    """What seals a bundle that is made from this one: the same key if this one is the user's own, else nothing.

    To seal what was made from somebody else's bundle would vouch for what they wrote.
    """
    try:
        return signer() if is_own(bundle.sealed, bundle.seal) else None
    except ReplayError:
        return None


def is_own(digest: bytes, seal: str) -> bool:
    """Whether the user's key of this machine made this seal for this digest. ReplayError if the key is unusable."""
    own = key.known() if digest and seal else None
    return own is not None and hmac.compare_digest(_seal(own, digest), seal)


def _seal(own: bytes, digest: bytes) -> str:
    return hmac.new(own, _PURPOSE + digest, hashlib.sha256).hexdigest()
