"""A torch.fx.GraphModule, with a function of the user's in its graph"""
import torch
import torch.fx


@torch.fx.wrap
def widen(x, times):
    return x.repeat(1, times)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)
        self.register_buffer("shift", torch.ones(8))

    def forward(self, x):
        return widen(torch.relu(self.linear(x)), 2) + self.shift


module = Model()
graph = torch.fx.symbolic_trace(module)


@torch.compile(backend="eager")
def use(x):
    return graph(x) @ torch.ones(len(list(graph.children())) + len(list(graph.parameters())))


use(torch.ones(2, 3))
