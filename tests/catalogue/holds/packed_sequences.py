"""Packed sequences, and batches of a DataLoader with dictionaries in them"""

import torch
from torch.nn.utils import rnn
from torch.utils.data import DataLoader, Dataset


class Words(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, at):
        return {
            "ids": torch.arange(at, at + 3),
            "label": at,
            "name": f"w{at}",
            "pair": (torch.ones(2), at * 0.5),
        }


loader = DataLoader(Words(), batch_size=2)
batch = next(iter(loader))
packed = rnn.pack_sequence([torch.ones(3, 2), torch.ones(1, 2)])
network = torch.nn.LSTM(2, 4)


@torch._dynamo.disable
def describe(x):
    out, _ = network(packed)
    padded, lengths = rnn.pad_packed_sequence(out)
    batches = [one["ids"].tolist() for one in loader]
    raise ValueError(
        f"{tuple(x.shape)} {type(packed).__name__} {tuple(padded.shape)} {lengths.tolist()} {batches}"
    )


@torch.compile(backend="eager")
def use(batch):
    x = batch["ids"].float() * batch["pair"][1].float().unsqueeze(1) + batch["pair"][0].sum()
    return describe(x)


use(batch)
