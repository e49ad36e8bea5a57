"""A package that is absent on replay, and that the failing frame does not touch"""
# package: sensors
# names: sensors.Probe

import torch
from sensors import Probe


class Reader(torch.nn.Module):
    """Holds an object of the package; the frame that fails does not ask for it."""

    def __init__(self):
        super().__init__()
        self.probe = Probe(5)
        self.weight = torch.nn.Parameter(torch.ones(3, 4))

    def forward(self, x):
        return x @ self.weight


torch.compile(Reader(), backend="eager")(torch.ones(2, 7))
