"""A cache of keys that grows by one tensor with each token: every length of the list is compiled for."""
# record: {"on": "recompile"}

import torch


@torch.compile(backend="eager")
def attend(query, keys):
    return torch.softmax(torch.stack(keys) @ query, 0)


keys = []
for token in range(6):
    keys.append(torch.full((4,), float(token)))
    attend(torch.ones(4), keys)
