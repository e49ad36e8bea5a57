"""Parametrizations, weight norm and spectral norm, new and old, and pruning masks"""

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = nn.Linear(4, 4)
        parametrize.register_parametrization(self.own, "weight", Symmetric())
        self.orthogonal = parametrizations.orthogonal(nn.Linear(4, 4))
        self.norm = parametrizations.weight_norm(nn.Linear(4, 4))
        self.spectral = parametrizations.spectral_norm(nn.Linear(4, 4))
        self.old_norm = nn.utils.weight_norm(nn.Linear(4, 4))
        self.old_spectral = nn.utils.spectral_norm(nn.Linear(4, 4))
        self.pruned = prune.l1_unstructured(nn.Linear(4, 4), "weight", amount=3)
        self.removed = prune.remove(prune.random_unstructured(nn.Linear(4, 4), "weight", amount=2), "weight")

    def forward(self, x):
        for part in self.children():
            x = part(x)
        return x @ torch.ones(len(list(self.named_parameters())) * 10 + len(list(self.named_buffers())))


torch.compile(Model().eval(), backend="eager")(torch.ones(1, 4))
