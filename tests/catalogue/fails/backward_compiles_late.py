"""A backward graph that fails to compile, when `.backward()` runs"""

import torch
from torch._dynamo.backends.common import aot_autograd


def refuse(graph, example_inputs):
    """A compiler for backward graphs."""
    shapes = [tuple(value.shape) for value in example_inputs]
    raise NotImplementedError(f"no backward for {shapes}")


backend = aot_autograd(fw_compiler=lambda graph, example_inputs: graph, bw_compiler=refuse)


@torch.compile(backend=backend)
def loss(x, weight):
    return (x * weight).sin().sum()


loss(torch.ones(3), torch.ones(3, requires_grad=True)).backward()
