"""Locks, conditions, events, semaphores, queues, thread locals"""

import queue
import threading

import torch


class State(threading.local):
    """What each thread has of its own."""

    rows = 3


class Shared:
    """A cache that several threads use."""

    def __init__(self):
        self.lock, self.again = threading.Lock(), threading.RLock()
        self.condition, self.event = threading.Condition(), threading.Event()
        self.semaphore = threading.Semaphore(2)
        self.event.set()
        self.plain = threading.local()
        self.plain.columns = 5
        self.state = State()
        self.state.rows = 4
        self.waiting = queue.Queue()
        self.waiting.put(6)

    def sizes(self):
        with self.lock, self.again, self.condition, self.semaphore:
            return self.plain.columns, self.state.rows, self.waiting.queue[0]


SHARED = Shared()


@torch._dynamo.assume_constant_result
def sizes():
    return SHARED.sizes()


def backend(graph, example_inputs):
    raise ValueError(f"the lock gave {sizes()}, the event is {SHARED.event.is_set()}")


@torch.compile(backend=backend)
def call(x):
    return x.sin()


call(torch.ones(7))
