"""ScriptModules and ScriptFunctions of torch.jit"""
import torch


@torch.jit.script
def scaled(x: torch.Tensor, by: int) -> torch.Tensor:
    return x * by


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 7)

    def forward(self, x):
        return self.linear(x) + 1


scripted = torch.jit.script(Model())
traced = torch.jit.trace(Model(), torch.ones(2, 3))


@torch._dynamo.disable
def run(x):
    return scaled(scripted(x) + traced(x), 3)


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return run(x) @ torch.ones(4)


use(torch.ones(2, 3))
