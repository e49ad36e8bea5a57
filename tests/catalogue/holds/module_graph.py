"""A torch.fx.GraphModule, with functions of the user's in its graph"""

import torch
import torch.fx


@torch.fx.wrap
def widen(x, times):
    return x.repeat(1, times)


def halved(x):
    return x[:, ::2]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)
        self.register_buffer("shift", torch.ones(12))

    def forward(self, x, *, bias=1.0):
        return widen(torch.relu(self.linear(x)), times=3) + self.shift + bias


graph = torch.fx.symbolic_trace(Model())
last = next(node for node in graph.graph.nodes if node.op == "output")
with graph.graph.inserting_before(last):
    last.args = (graph.graph.call_function(halved, last.args),)
graph.recompile()


@torch.compile(backend="eager")
def use(x):
    return graph(x) @ torch.ones(len(list(graph.parameters())) + 2)


use(torch.ones(2, 3))
