"""Asking an object how it wants to be pickled, when its answer is code that may raise, hang or never end.

What becomes of an object that gives no answer is decided in `others.py`.
"""

from __future__ import annotations

import copyreg
import sys
from typing import Any

from replay.shipping import patience
from replay.shipping.dumping import Dumping
from replay.shipping.policy import ALWAYS_REFERRED

PROTOCOL = 4  # of pickle; what every Python since 3.8 reads
MOST = 20_000
"""Objects of one class that are asked. Pickling that makes new objects without end is ended by it."""
HOOKS = frozenset(
    {
        *("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__"),
        *("__getattribute__", "__getattr__", "__class__", "__iter__", "items"),
    }
)


class Refused(Exception):  # noqa: N818 - no error: an answer
    """The object does not say how it is pickled; the message says why."""


def asked(dumping: Dumping, value: Any) -> Any:
    """What the object's `__reduce_ex__`, or the function that is registered for its type, returns.

    Iterators in it are read. Raises Refused where it raises, does not end, or was asked too often.
    """
    cls = type(value)
    if cls in dumping.unwilling:
        raise Refused(dumping.unwilling[cls])
    foreign = _is_foreign(dumping, cls)
    try:
        return patience.within(_ask, value) if foreign else _ask(value)
    except KeyboardInterrupt:
        raise
    except patience.Stuck:
        reason = dumping.unwilling[cls] = f"pickling it did not end within {patience.SECONDS:g} seconds"
    except BaseException as error:
        if isinstance(error, RecursionError) and not dumping.shallow:
            raise  # perhaps ours: `dump` tries again with a larger stack
        reason = f"pickling it raised {type(error).__name__}: {error}"
    raise Refused(reason)


def _ask(value: Any) -> Any:
    registered = copyreg.dispatch_table.get(type(value))
    reduced = registered(value) if registered is not None else value.__reduce_ex__(PROTOCOL)
    if not isinstance(reduced, tuple) or len(reduced) < 4:
        return reduced
    return (*reduced[:3], *(part if part is None else list(part) for part in reduced[3:5]), *reduced[5:])


def _is_foreign(dumping: Dumping, cls: type) -> bool:
    """Whether code that is neither Python's nor torch's runs when an instance is asked; counts the instances."""
    found = dumping.foreign.get(cls)
    if found is None:
        found = cls in copyreg.dispatch_table or any(
            not HOOKS.isdisjoint(base.__dict__) and _is_elsewhere(base) for base in cls.__mro__
        )
        dumping.foreign[cls] = found
    if found:
        dumping.asked[cls] += 1
        if dumping.asked[cls] > MOST:
            dumping.unwilling[cls] = (
                f"pickling it has no end: there are more than {MOST} objects of its class"
            )
            raise Refused(dumping.unwilling[cls])
    return found


def _is_elsewhere(cls: type) -> bool:
    top = str(cls.__module__).partition(".")[0]
    return top == "__main__" or (top not in sys.stdlib_module_names and top not in ALWAYS_REFERRED)
