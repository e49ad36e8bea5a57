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
        names = len(list(self.named_parameters())) * 10 + len(list(self.named_buffers()))
        return x @ torch.ones(names + int(self.own.weight.shape[0]))


@torch._dynamo.disable
def numbers(model):
    assert torch.equal(model.own.weight, model.own.weight.T)
    return int((model.pruned.weight == 0).sum()) * 10 + int((model.removed.weight == 0).sum())


@torch.compile(backend="eager")
def use(model, x):
    x = x + 1
    return model(x) + numbers(model)


use(Model().eval(), torch.ones(1, 4))
