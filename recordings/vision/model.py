"""The model."""

import torch

from vision.layers import Block


class Encoder(torch.nn.Module):
    def __init__(self, width=32, depth=2):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(width, heads=4) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x
