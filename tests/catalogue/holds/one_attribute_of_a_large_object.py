"""A user's object around a model, data and callbacks, of which the frame uses little"""

import torch


class Trainer:
    def __init__(self):
        self.model = torch.nn.ModuleDict({"head": torch.nn.Linear(8, 4), "body": torch.nn.Linear(8, 8)})
        self.data = [torch.rand(4000) for _ in range(8)]
        self.callbacks = [lambda: None]
        self.log = open(__file__)  # noqa: SIM115
        self.rate = 3

    def step(self, x):
        return self.model["head"](x) @ torch.ones(4 + self.rate, 1)


torch.compile(Trainer().step, backend="eager")(torch.rand(2, 8))
