"""The stance fail_on_recompile: a call that would compile anew"""

import torch


class Project(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x)


project = torch.compile(Project(), backend="eager", dynamic=False)
project(torch.ones(3, 3))
with torch.compiler.set_stance("fail_on_recompile"):
    project(torch.ones(5, 3))
