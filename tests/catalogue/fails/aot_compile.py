"""A compiled function's aot_compile: the backend refuses"""

import torch


def refuse(graph, example_inputs):
    raise NotImplementedError(f"{len(example_inputs)} inputs, ahead of time")


def add(x, y):
    return x + y


with torch._dynamo.config.patch(enable_aot_compile=True):
    torch.compile(add, backend=refuse, fullgraph=True).aot_compile(((torch.ones(3),), {"y": torch.ones(3)}))
