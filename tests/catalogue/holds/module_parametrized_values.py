"""The values of parametrized, normalized and pruned weights"""

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


def linear():
    return nn.Linear(2, 2)


own = linear()
parametrize.register_parametrization(own, "weight", Symmetric())
parts = [own, parametrizations.orthogonal(linear()), parametrizations.weight_norm(linear())]
parts += [
    parametrizations.spectral_norm(linear()),
    nn.utils.weight_norm(linear()),
    nn.utils.spectral_norm(linear()),
]
parts += [prune.l1_unstructured(linear(), "weight", amount=3)]
model = nn.Sequential(*parts).eval()


@torch._dynamo.disable
def describe(x):
    assert torch.equal(model[0].weight, model[0].weight.T)
    zeros = int((model[-1].weight == 0).sum())
    raise ValueError(f"{zeros} {[f'{number:.4f}' for number in model(x).flatten().tolist()]}")


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return describe(x)


use(torch.ones(1, 2))
