"""Parameters shared between modules, tied weights, two views of one storage"""

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(5, 3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight
        self.shared = torch.nn.ModuleList([self.head, self.head])
        self.whole = torch.zeros(6)
        self.register_buffer("part", self.whole[2:4])

    def forward(self, x):
        self.part.fill_(4)
        assert self.head.weight is self.embed.weight and self.shared[0] is self.shared[1] is self.head
        assert len(list(self.parameters())) == 1
        return torch.arange(2)[self.whole.sum().long().reshape(1)] + self.head(self.embed(x)).sum()


torch.compile(Model(), backend="eager")(torch.tensor([1, 2]))
