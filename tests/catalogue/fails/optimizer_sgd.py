"""torch.compile(optimizer.step) of SGD with momentum, second step: the backend refuses"""

import torch


def refuse(graph, example_inputs):
    raise NotImplementedError(f"a step over {len(example_inputs)} tensors")


model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model(torch.ones(4, 3)).sum().backward()
optimizer.step()
torch.compile(optimizer.step, backend=refuse)()
