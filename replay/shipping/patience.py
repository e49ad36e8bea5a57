"""A time limit on what pickling calls of the user's: `__reduce__`, `__getstate__`, `__getattr__`.

In the main thread a timer interrupts the call, whatever it waits for. In other threads, and where the program uses
that timer itself, the call runs in a thread of its own, with the caller's context variables; one that does not come
back is left behind, and asked to end. What stays inside C code and never looks for signals is beyond both. Which
calls need this, and what becomes of the object, is decided in `others.py`.
"""

from __future__ import annotations

import contextvars
import ctypes
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
SECONDS = 10.0
"""How long one call may take."""
AGAIN = 0.2  # seconds until a call that swallowed the interruption is interrupted once more


class Stuck(BaseException):
    """A call took too long. No Exception, because user code swallows those."""


def within(function: Callable[..., T], *arguments: Any) -> T:
    """Call the function; returns and raises what it does, or raises Stuck after `SECONDS`."""
    if _timer_is_free():
        return _interrupted(function, *arguments)
    return _in_a_thread(function, *arguments)


def _timer_is_free() -> bool:
    """Whether this is the main thread of a platform that has the timer, and nobody uses it."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return False
    return signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0) and signal.getsignal(signal.SIGALRM) is not None


def _interrupted(function: Callable[..., T], *arguments: Any) -> T:
    inside = True

    def stop(number: int, frame: object) -> None:
        if inside:
            raise Stuck

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, SECONDS, AGAIN)
        try:
            return function(*arguments)
        finally:
            inside = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _in_a_thread(function: Callable[..., T], *arguments: Any) -> T:
    results: list[T] = []
    errors: list[BaseException] = []
    context = contextvars.copy_context()

    def work() -> None:
        try:
            results.append(context.run(function, *arguments))
        except BaseException as error:  # noqa: BLE001  # the caller gets it
            errors.append(error)

    thread = threading.Thread(target=work, name="replay-patience", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if errors:
        raise errors[0]
    if not results:
        _end(thread)
        raise Stuck
    return results[0]


def _end(thread: threading.Thread) -> None:
    """Raise Stuck in the thread; one that loops ends, one that sleeps ends when it wakes."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Stuck))
