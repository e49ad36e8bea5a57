"""A function that is called after a graph break is compiled on its own, and fails on its own."""

import threading

import torch

GAIN = 3
lock = threading.Lock()


def amplify(signal, taps):
    def tap(n):
        return signal * taps[n] * GAIN

    return torch.stack([tap(n) for n in range(3)]) @ signal.unsqueeze(0)


@torch.compile(backend="aot_eager")
def chain(signal):
    with lock:
        print("taps")
        return amplify(signal, torch.tensor([1, 2, 3]))


chain(torch.randn(5))
