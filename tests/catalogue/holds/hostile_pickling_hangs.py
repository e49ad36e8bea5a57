"""Objects whose pickling sleeps, waits for a lock, or loops for ever"""
# patience: 0.3
# warns: did not end within
# note: a warning tells the type; its attributes are taken without asking it. C code that never gives way is not covered

import threading
import time

import torch


class Sleeps:
    """Waits for a server."""

    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        time.sleep(1000)


class Waits:
    """Waits for a lock that the program holds."""

    def __init__(self, n):
        self.n = n
        self.lock = threading.Lock()
        self.lock.acquire()

    def __getstate__(self):
        with self.lock:
            return self.__dict__


class Loops:
    """Swallows what would end it."""

    def __init__(self, n):
        self.n = n

    def __getstate__(self):
        while True:
            try:
                self.n = max(self.n, 5)
            except Exception:
                continue


THINGS = [Sleeps(3), Waits(4), Loops(5), Sleeps(6)]


@torch.compile(backend="eager")
def call(x):
    return x.reshape([thing.n for thing in THINGS])


call(torch.ones(7))
