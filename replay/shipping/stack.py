"""A larger stack, for data that is nested deeper than the caller's stack allows. Nothing is known of the data here."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
STACK_BYTES = 512 << 20  # address space; memory is taken as it is used
RECURSION_LIMIT = 200_000


def with_large_stack(function: Callable[[], T]) -> T:
    """Call `function` in a thread of its own with a large stack; returns and raises what it does."""
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001  # the caller gets it
            errors.append(error)

    size, limit = threading.stack_size(STACK_BYTES), sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        thread = threading.Thread(target=work, name="replay-large-stack")
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return results[0]
