"""Context variables, as the recording context sees them"""

import contextvars

import torch

ROWS = contextvars.ContextVar("rows", default=2)
COLUMNS = contextvars.ContextVar("columns")
ROWS.set(6)
COLUMNS.set({"n": 5})


@torch._dynamo.assume_constant_result
def sizes():
    return ROWS.get(), COLUMNS.get()["n"]


@torch.compile(backend="eager")
def call(x):
    return x.reshape(sizes())


call(torch.ones(7))
