"""Objects that belong to a running process: locks, thread locals, context variables, weak references.

They come back new, with what of their state makes sense elsewhere. Threads, files, sockets, generators and frames
do not come back: they are lost, and a placeholder says so.
"""

from __future__ import annotations

import sys
import threading
import weakref
from contextvars import ContextVar
from typing import Any

from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.loading import Loading, builder
from replay.shipping.placeholders import reduce_lost
from replay.shipping.plain import make_plain


class Dead:
    """What a dead weak reference once pointed to."""


def reduce_lock(dumping: Dumping, lock: Any) -> Reduced:
    """A lock comes back unlocked."""
    return make_lock, (type(lock) is type(threading.RLock()),)


@builder
def make_lock(loading: Loading, reentrant: bool) -> Any:
    """A new lock."""
    return threading.RLock() if reentrant else threading.Lock()


def reduce_local(dumping: Dumping, local: threading.local) -> Reduced:
    """What the recording thread sees of it."""
    return make_plain, (type(local),), (dict(local.__dict__),), None, None, fill_local


@builder
def fill_local(loading: Loading, local: threading.local, state: Reduced) -> None:
    """Set what this thread sees."""
    local.__dict__.update(state[0])


def reduce_context_variable(dumping: Dumping, variable: Any) -> Reduced:
    """By its name, and what the recording context sees as its default."""
    return make_context_variable, (variable.name, *_known_value(variable))


def _known_value(variable: ContextVar[Any]) -> tuple[Any, ...]:
    try:
        return (variable.get(),)
    except LookupError:  # neither set nor with a default
        return ()


@builder
def make_context_variable(loading: Loading, name: str, *default: Any) -> Any:
    """A new variable; Python keeps each until the process ends."""
    return ContextVar(name, default=default[0]) if default else ContextVar(name)


def reduce_live(dumping: Dumping, value: Any) -> Reduced:
    """What lives in the recorded process only; the standard streams are those of the replaying one."""
    for name in ("stdin", "stdout", "stderr"):
        if value is getattr(sys, name) or value is getattr(sys, f"__{name}__"):
            return getattr, (sys, name)
    return reduce_lost(dumping, value, f"a {type(value).__name__} belongs to the process that was recorded")


def reduce_weak_reference(dumping: Dumping, reference: Any) -> Reduced:
    """With its object, which the load keeps alive; without its callback."""
    value = reference()
    return (make_dead_reference, ()) if value is None else (make_reference, (value,))


@builder
def make_reference(loading: Loading, value: Any) -> Any:
    """A weak reference to an object that the load keeps alive."""
    loading.keep.append(value)
    return weakref.ref(value)


@builder
def make_dead_reference(loading: Loading) -> Any:
    """A weak reference whose object is gone."""
    return weakref.ref(Dead())


def reduce_weak_proxy(dumping: Dumping, proxy: Any) -> Reduced:
    """With its object, which the load keeps alive; without its callback."""
    try:
        return make_proxy, (proxy.__repr__.__self__,)
    except ReferenceError:
        return make_dead_proxy, ()


@builder
def make_proxy(loading: Loading, value: Any) -> Any:
    """A proxy of an object that the load keeps alive."""
    loading.keep.append(value)
    return weakref.proxy(value)


@builder
def make_dead_proxy(loading: Loading) -> Any:
    """A proxy whose object is gone."""
    return weakref.proxy(Dead())


def reduce_weak_mapping(dumping: Dumping, mapping: Any) -> Reduced:
    """With what is alive of it."""
    return make_weak, (type(mapping), dict(mapping.items()))


def reduce_weak_set(dumping: Dumping, values: Any) -> Reduced:
    """With what is alive of it."""
    return make_weak, (type(values), list(values))


@builder
def make_weak(loading: Loading, cls: Any, content: Any) -> Any:
    """A weak collection; the load keeps what is in it alive."""
    loading.keep.append(content)
    return cls(content)
