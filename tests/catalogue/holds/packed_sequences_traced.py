"""A packed sequence and a batch of a DataLoader, traced"""

import torch
from torch.nn.utils import rnn
from torch.utils.data import DataLoader

data = [
    {"ids": torch.arange(at, at + 3), "name": f"w{at}", "pair": (torch.ones(2), at * 0.5)} for at in range(4)
]
batch = next(iter(DataLoader(data, batch_size=2)))
packed = rnn.pack_sequence([torch.ones(3, 2), torch.ones(1, 2)])


@torch.compile(backend="eager")
def use(batch, packed):
    y = batch["ids"].float() * batch["pair"][1].float().unsqueeze(1) + batch["pair"][0].sum()
    return packed.data @ y @ torch.ones(len(batch["name"]) + packed.batch_sizes.shape[0])


use(batch, packed)
