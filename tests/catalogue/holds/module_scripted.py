"""ScriptModules and ScriptFunctions of torch.jit, scripted and traced"""

import torch


@torch.jit.script
def scaled(x: torch.Tensor, by: int) -> torch.Tensor:
    return x * by


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 7)
        torch.nn.init.ones_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)

    def forward(self, x):
        return self.linear(x) + 1


scripted = torch.jit.script(Model())
traced = torch.jit.trace(Model(), torch.ones(2, 3))
holder = torch.nn.Sequential(scripted)


@torch._dynamo.disable
def describe(x):
    names = sorted(dict(scripted.named_parameters()))
    assert holder[0] is scripted and holder[0].linear.weight.requires_grad
    raise ValueError(f"{scaled(holder(x) + traced(x), 3)[0].tolist()} {names} {scripted.original_name}")


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return describe(x)


use(torch.ones(2, 3))
