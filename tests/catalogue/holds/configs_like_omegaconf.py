"""A configuration as of OmegaConf: nodes that know their parents, interpolation, __getattr__"""
# package: confish
# record: {"ship": ["confish"]}

import torch
from confish import create

CONFIG = create(
    {
        "model": {"width": 4, "double": "${model.width}", "layers": [{"n": 3}, {"n": "${model.width}"}]},
        "name": "run-${model.width}",
    }
)


class Model(torch.nn.Module):
    """Keeps the node that is its own."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.weight = torch.nn.Parameter(torch.ones(config.width, config.layers[0].n))

    def forward(self, x):
        return (x @ self.weight).reshape(sizes(self.config.width))


@torch._dynamo.assume_constant_result
def sizes(width):
    return CONFIG.model.double, CONFIG.model.layers[1].n, len(CONFIG.name), len(CONFIG), width


torch.compile(Model(CONFIG.model), backend="eager")(torch.ones(5, 4))
