"""A socket that the failing frame asks for its timeout"""
# expects: missing
# names: CONNECTION

import socket

import torch

CONNECTION = socket.socket()
CONNECTION.settimeout(5)


@torch._dynamo.assume_constant_result
def rows():
    return int(CONNECTION.gettimeout())


@torch.compile(backend="eager")
def call(x):
    return x.reshape(rows(), 2)


try:
    call(torch.ones(7))
finally:
    CONNECTION.close()
