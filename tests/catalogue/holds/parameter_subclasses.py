"""Parameters that are subclasses: of Parameter, and around a subclass of Tensor"""

import torch


class Masked(torch.nn.Parameter):
    def __new__(cls, data, mask):
        made = super().__new__(cls, data)
        made.mask = mask
        return made


class Tagged(torch.Tensor):
    pass


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.masked = Masked(torch.ones(2, 3), torch.ones(3))
        self.tagged = torch.nn.Parameter(torch.ones(3, 4).as_subclass(Tagged))
        self.frozen = torch.nn.Parameter(torch.ones(4, 5), requires_grad=False)

    def forward(self, x):
        names = dict(self.named_parameters())
        assert type(self.masked) is Masked and isinstance(self.tagged, Tagged) and len(names) == 3
        return (x @ self.masked * self.masked.mask) @ self.tagged @ self.frozen @ torch.ones(2)


torch.compile(Model(), backend="eager", fullgraph=True)(torch.ones(1, 2))
