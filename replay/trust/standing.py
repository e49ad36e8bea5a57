"""What is known here of who made a bundle. Reads its manifest alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from replay.errors import ReplayError
from replay.trust import places, seals
from replay.trust.seals import Sealed


@dataclass(frozen=True, slots=True)
class Standing:
    """A bundle's standing with this user on this machine."""

    kind: Literal["own", "place", "sealed", "unsealed"]
    said: str  # a clause for people
    notes: tuple[str, ...] = ()  # what kept the key or the list of directories from being used

    @property
    def trusted(self) -> bool:
        """Whether its code may run here at once."""
        return self.kind in ("own", "place")


def standing_of(bundle: Sealed) -> Standing:
    """Who vouches for the bundle: the user's own key, or a directory that is trusted. Runs nothing, raises nothing."""
    notes = []
    try:
        if seals.is_own(bundle.sealed, bundle.seal):
            return Standing("own", "recorded by you, with the seal of your own key")
    except ReplayError as error:
        notes.append(str(error))
    try:
        place = places.place_of(bundle.path)
        if place is not None:
            return Standing("place", f"in {place}, which you trust", tuple(notes))
    except ReplayError as error:
        notes.append(str(error))
    if bundle.seal:
        return Standing("sealed", "recorded by somebody else, or on another machine", tuple(notes))
    return Standing("unsealed", "from nobody that is known here: it has no seal", tuple(notes))
