"""torch.export in strict mode, of a module that branches on a tensor's value."""

import torch


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.limit = 3

    def forward(self, x):
        if x.sum() > self.limit:
            return x * 2
        return x


torch.export.export(Gate(), (torch.ones(4),), strict=True)
