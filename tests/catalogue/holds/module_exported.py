"""The module of a torch.export program, and a graph of Dynamo's own export"""

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x):
        return {"out": self.linear(x["in"])}


program = torch.export.export(Model(), ({"in": torch.ones(2, 3)},))
module = program.module()


@torch.compile(backend="eager")
def use(x):
    return module({"in": x})["out"] @ torch.ones(5)


use(torch.ones(2, 3))
