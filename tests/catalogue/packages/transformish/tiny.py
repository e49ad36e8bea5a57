"""A model."""

import torch
from torch import nn

from .configuration import Config
from .modeling import ATTENTION, PreTrained, can_return_tuple, logger
from .outputs import BaseOutput


class TinyConfig(Config):
    """`width` is another name of `hidden`."""

    model_type = "tiny"
    attribute_map = {"width": "hidden", "num_layers": "layers"}

    def __init__(self, hidden=4, layers=1, attention="windowed", **values):
        self.hidden, self.layers, self.attention = hidden, layers, attention
        super().__init__(**values)


class TinyLayer(nn.Module):
    """One layer."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.proj = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width)

    def forward(self, x):
        attend = ATTENTION[self.config.attention]
        y, weights = attend(self, self.norm(x))
        return x + y, weights


class TinyModel(PreTrained):
    """All layers."""

    config_class = TinyConfig

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(10, config.width)
        self.blocks = nn.ModuleList(TinyLayer(config) for _ in range(config.num_layers))
        self.post_init()

    @can_return_tuple
    def forward(self, ids: torch.Tensor):
        x, states = self.embed(ids).to(self.dtype), []
        for block in self.blocks:
            x, _ = block(x)
            states.append(x)
        if not states:
            logger.warning("no layers")
        return BaseOutput(last_hidden=x, states=tuple(states))
