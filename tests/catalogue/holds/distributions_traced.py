"""Distributions that are traced"""

import torch
from torch import distributions

normal = distributions.Normal(torch.tensor([1.0, 2.0, 3.0]), torch.ones(3))


@torch.compile(backend="eager")
def use(x, other):
    y = distributions.kl_divergence(normal, other) + normal.log_prob(x)
    return y @ torch.ones(int(normal.batch_shape[0]) + 4)


use(torch.ones(2, 3), distributions.Normal(torch.zeros(3), torch.ones(3)))
