"""The user's own key of this machine: 32 random bytes that never leave it.

Whoever has it can make bundles that run here at once. So it is for the user's eyes alone, and a key that others could
have read is none: to mend its permissions would not make them forget it.
"""

from __future__ import annotations

import secrets

from replay.errors import ReplayError
from replay.trust import folder

NAME = "key"
SIZE = 32


def known() -> bytes | None:
    """The key; None where none was made yet. ReplayError for one that is not to be used, with what to do."""
    try:
        data = folder.read(NAME, forbidden=folder.OTHERS)
    except ReplayError as error:
        raise ReplayError(
            f"{error}; no bundle counts as your own until you remove the key (a new one is made when you record)"
        ) from None
    if data is not None and len(data) != SIZE:
        raise ReplayError(f"{folder.path() / NAME}: it is no key of replay; remove it")
    return data


def made() -> bytes:
    """The key, made now if there is none. Of two processes that make one at once, both get the same.

    Raises ReplayError as `known`, and OSError where the folder cannot be written.
    """
    data = known()
    if data is None:
        folder.write(NAME, secrets.token_bytes(SIZE), replace=False)
        data = known()
    if data is None:
        raise ReplayError(f"{folder.path() / NAME}: it was removed while it was made; try again")
    return data
