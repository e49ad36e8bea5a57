"""Objects of torch.distributions"""
import torch
from torch import distributions

normal = distributions.Normal(torch.tensor([1.0, 2.0, 3.0]), torch.ones(3))
mixture = distributions.MixtureSameFamily(
    distributions.Categorical(torch.tensor([0.5, 0.5])), distributions.Normal(torch.zeros(2), torch.ones(2))
)
flow = distributions.TransformedDistribution(normal, [distributions.transforms.ExpTransform()])


@torch._dynamo.disable
def numbers(mixture, flow):
    return int(mixture.mean.sum() * 10) + int(flow.base_dist.loc.sum())


@torch.compile(backend="eager")
def use(x):
    y = normal.log_prob(x)
    return (y + numbers(mixture, flow)) @ torch.ones(int(normal.batch_shape[0]) + 4)


use(torch.ones(2, 3))
