"""An OptimizedModule, a module with compiled submodules, compiled and disabled functions among the globals"""

import torch


@torch.compile(backend="eager", dynamic=True)
def double(x):
    return x * 2


@torch.compiler.disable(recursive=False)
def off(x):
    return x + 1


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.compile(torch.nn.Linear(3, 4), backend="aot_eager")
        self.list = torch.nn.ModuleList(
            [torch.compile(torch.nn.Linear(4, 4), backend="eager", dynamic=False)]
        )
        self.inner = torch.nn.Linear(4, 4)
        self.inner.compile(backend="eager")

    @torch.compile(backend="eager")
    def scaled(self, x):
        return x * 3

    def forward(self, x):
        x = off(double(self.part(x)))
        return self.scaled(self.inner(self.list[0](x))) @ torch.ones(len(list(self.modules())))


model = torch.compile(Model(), backend="eager")
assert isinstance(model, torch._dynamo.OptimizedModule)


@torch.compile(backend="eager")
def use(x):
    return model(x)


use(torch.ones(2, 3))
