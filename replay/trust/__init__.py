"""Whose a bundle is, and so whether its code may run here, and how.

folder     the user's configuration folder, and files in it that nobody else may touch
key        the user's own key of this machine, made when it is first needed
seals      a bundle's seal: made by that key, and recognised by it
places     directories whose bundles the user has said to trust
standing   what all of this says of one bundle
policy     what may be done with a bundle of that standing

Nothing here asks a person or replays; reading a bundle's standing runs nothing of it.
"""

from replay.trust.places import Place, forget, trusted_places, vouch_for
from replay.trust.policy import Admission, admit
from replay.trust.seals import signer, successor_signer
from replay.trust.standing import Standing, standing_of

__all__ = [
    "Admission",
    "Place",
    "Standing",
    "admit",
    "forget",
    "signer",
    "standing_of",
    "successor_signer",
    "trusted_places",
    "vouch_for",
]
