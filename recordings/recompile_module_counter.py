"""A module that counts its calls: the number is a constant of the compiled code, until the limit is reached."""
# record: {"on": "recompile"}

import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(4))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.scale


block = torch.compile(Block(), backend="eager")
for _ in range(12):
    block(torch.ones(2, 4))
