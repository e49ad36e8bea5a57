"""bytes, bytearray, memoryview, array.array"""

import array

import torch

MUTABLE = bytearray(b"abc")
VIEW = memoryview(MUTABLE)[1:]
NUMBERS = array.array("i", [3, 4])


@torch._dynamo.assume_constant_result
def sizes():
    return len(MUTABLE), len(bytes(VIEW)), VIEW[0] - 90, sum(NUMBERS)


@torch.compile(backend="eager")
def call(x):
    return x.reshape(sizes())


call(torch.ones(17))
