"""A large module of which the frame reaches one branch"""

import torch


class Branch(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.lin = torch.nn.Linear(size, size)

    def forward(self, x):
        return self.lin(x).relu()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Branch(16), Branch(500)
        self.vocabulary = torch.nn.Parameter(torch.rand(300, 500))
        self.register_buffer("history", torch.rand(10_000))

    def encode(self, x):
        code = self.encoder(x)
        return code @ torch.ones(self.encoder.lin.out_features + 5, 2)

    def forward(self, x):
        return self.decoder(self.encode(x) @ self.vocabulary)


torch.compile(Model().encode, backend="eager")(torch.rand(3, 16))
