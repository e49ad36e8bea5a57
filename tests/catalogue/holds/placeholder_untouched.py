"""An open file, a socket, a generator, a thread: held, and not touched by the failing frame"""
# names: .log
# names: .socket
# names: .rows
# names: .thread

import os
import socket
import threading

import torch


class Holder:
    """What belongs to the process."""

    def __init__(self):
        self.log = open(os.devnull)  # noqa: SIM115
        self.socket = socket.socket()
        self.rows = (n for n in range(3))
        self.thread = threading.Thread(target=print)
        self.n = 6

    def close(self):
        self.log.close()
        self.socket.close()


HOLDER = Holder()


@torch.compile(backend="eager")
def call(x):
    return x.reshape(HOLDER.n, 2)


try:
    call(torch.ones(7))
finally:
    HOLDER.close()
