"""Kinds that only dill can take: the descriptors of built-in types, found again by the names of type and attribute.

dill is asked for nothing that can hold an object of the user's: it would take classes of `__main__` its own way.
"""

from __future__ import annotations

import types
from typing import Any

from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.loading import Loading, builder

KINDS = (
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


def reduce_by_dill(dumping: Dumping, value: Any) -> Reduced:
    """As dill writes it; what a user's class has under such a type is refused by dill, and lost."""
    import dill

    return make_by_dill, (dill.dumps(value, protocol=4),)


@builder
def make_by_dill(loading: Loading, data: bytes) -> Any:
    """What dill reads; the bytes are part of the values and no more to be trusted than these."""
    import dill

    return dill.loads(data)
