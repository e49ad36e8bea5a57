"""torch.compile(optimizer.step) of a user's optimizer: shapes that do not fit"""

import torch


class Descent(torch.optim.Optimizer):
    def __init__(self, parameters, rate):
        super().__init__(parameters, {"rate": rate})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(parameter.grad @ torch.ones(7), alpha=-group["rate"])


model = torch.nn.Linear(3, 2)
optimizer = Descent(model.parameters(), 0.1)
model(torch.ones(4, 3)).sum().backward()
torch.compile(optimizer.step, backend="eager", fullgraph=True)()
