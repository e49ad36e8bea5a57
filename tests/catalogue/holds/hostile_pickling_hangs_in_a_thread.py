"""The same, where the frame is compiled in a thread that is not the main one"""
# patience: 0.3
# warns: did not end within

import concurrent.futures
import time

import torch


class Sleeps:
    """Waits for a server."""

    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        time.sleep(1000)


class Loops:
    """Never returns."""

    def __init__(self, n):
        self.n = n

    def __getstate__(self):
        while True:
            self.n = max(self.n, 5)


THINGS = [Sleeps(3), Loops(5), Sleeps(6)]


@torch.compile(backend="eager")
def call(x):
    return x.reshape([thing.n for thing in THINGS])


with concurrent.futures.ThreadPoolExecutor(1) as pool:
    pool.submit(call, torch.ones(7)).result()
