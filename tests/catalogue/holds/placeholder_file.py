"""An open file that the failing frame reads"""
# expects: missing
# names: FILE

import os

import torch

FILE = open(os.devnull)  # noqa: SIM115


@torch._dynamo.assume_constant_result
def rows():
    return len(FILE.read()) + 3


@torch.compile(backend="eager")
def call(x):
    return x.reshape(rows(), 2)


try:
    call(torch.ones(7))
finally:
    FILE.close()
