"""A running generator that the failing frame goes on with"""
# expects: missing
# names: rows

import torch


def count():
    yield 3
    yield 4


@torch.compile(backend="eager")
def call(x, rows):
    return x.reshape(next(rows), 2)


ROWS = count()
next(ROWS)
call(torch.ones(7), ROWS)
