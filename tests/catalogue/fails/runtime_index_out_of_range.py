"""Compiled code raises while it runs: an index out of range, in a later call"""

import torch


@torch.compile(backend="aot_eager")
def pick(table, rows):
    return table[rows + 1] * 2


pick(torch.arange(3.0), torch.tensor([0]))
pick(torch.arange(3.0), torch.tensor([41]))
