"""torch.compile(optimizer.step) of Adam: the backend refuses"""

import torch


def refuse(graph, example_inputs):
    raise NotImplementedError(f"a step over {len(example_inputs)} tensors")


model = torch.nn.Linear(3, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1))
model(torch.ones(4, 3)).sum().backward()
torch.compile(optimizer.step, backend=refuse)()
