"""A backward graph that fails to compile when `.backward()` runs: the user's backend for it refuses."""

import torch
from torch._dynamo.backends.common import aot_autograd


def refuse(graph, example_inputs):
    names = ", ".join(node.name for node in graph.graph.nodes if node.op == "call_function")
    raise NotImplementedError(f"no backward kernels for {names}")


@torch.compile(backend=aot_autograd(fw_compiler=lambda graph, inputs: graph, bw_compiler=refuse))
def loss(x, weight):
    return (x @ weight).sin().sum()


loss(torch.ones(2, 3), torch.ones(3, 4, requires_grad=True)).backward()
