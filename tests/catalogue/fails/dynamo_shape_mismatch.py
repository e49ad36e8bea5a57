"""Dynamo: shapes that do not fit"""

import torch


@torch.compile(backend="eager")
def multiply(x, weight):
    return (x @ weight).relu()


multiply(torch.ones(2, 3), torch.ones(4, 5))
