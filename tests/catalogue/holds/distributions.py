"""Objects of torch.distributions"""

import torch
from torch import distributions

normal = distributions.Normal(torch.tensor([1.0, 2.0, 3.0]), torch.ones(3))
mixture = distributions.MixtureSameFamily(
    distributions.Categorical(torch.tensor([0.5, 0.5])), distributions.Normal(torch.zeros(2), torch.ones(2))
)
flow = distributions.TransformedDistribution(normal, [distributions.transforms.ExpTransform()])


@torch._dynamo.disable
def describe(y):
    raise ValueError(
        f"{tuple(y.shape)} {mixture.mean} {flow.base_dist.loc.tolist()} {flow.log_prob(torch.ones(3))}"
    )


@torch.compile(backend="eager")
def use(x):
    return describe(normal.log_prob(x))


use(torch.ones(2, 3))
