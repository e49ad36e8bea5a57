"""A module that is compiled again because one of its attributes changed."""
# record: {"on": "recompile"}

import torch


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.power = "low"

    def forward(self, x):
        return x * (2 if self.power == "low" else 3)


scale = Scale()
compiled = torch.compile(scale, backend="eager")
compiled(torch.ones(3))
scale.power = "high"
compiled(torch.ones(3))
