"""Seals: what the user's key says of a bundle's manifest, and so of all the code in the bundle.

A seal is an HMAC: who does not have the key can neither make one, nor learn from one who made it.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable

from replay.errors import ReplayError
from replay.trust import key

_PURPOSE = b"torch-replay bundle\0"

log = logging.getLogger("replay")


def signer() -> Callable[[bytes], str] | None:
    """What makes the seal for a digest; None where there can be no key: recording goes on, without."""
    try:
        own = key.made()
    except (ReplayError, OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        log.info("replay: bundles are not sealed as your own: %s", error)
        return None
    return lambda digest: _seal(own, digest)


def is_own(digest: bytes, seal: str) -> bool:
    """Whether the user's key of this machine made this seal for this digest. ReplayError if the key is unusable."""
    own = key.known() if digest and seal else None
    return own is not None and hmac.compare_digest(_seal(own, digest), seal)


def _seal(own: bytes, digest: bytes) -> str:
    return hmac.new(own, _PURPOSE + digest, hashlib.sha256).hexdigest()
