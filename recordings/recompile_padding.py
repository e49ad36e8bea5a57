"""Texts are padded to the longest of their batch, and the last batch is short: two dimensions change in turn."""
# record: {"on": "recompile", "calls": true}

import torch


@torch.compile(backend="eager")
def score(tokens, weight):
    return (tokens * weight).sum(1)


weight = torch.ones(())
for rows, length in ((4, 12), (4, 12), (4, 17), (4, 9), (4, 23), (3, 23), (3, 11), (4, 17)):
    score(torch.ones(rows, length), weight)
