"""A compiled step of an optimizer, whose state then has a wrong shape"""

import torch

model = torch.nn.Linear(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, foreach=False)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
optimizer.state[model.weight]["momentum_buffer"] = torch.ones(5, 7)


@torch.compile(backend="eager")
def step():
    optimizer.step()


step()
