"""An index out of range, found when the compiled code runs, on a call that hits the cache."""

import torch


@torch.compile(backend="aot_eager")
def pick(table, rows):
    return table[rows + 1] * 2


table = torch.arange(12.0).reshape(6, 2)
pick(table, torch.tensor([0, 3]))
pick(table, torch.tensor([2, 71]))
