"""A model in the style of transformers, shipped: lazy modules, config, registry, ModelOutput"""
# package: transformish
# record: {"ship": ["transformish"]}

import torch
from transformish import TinyConfig, TinyModel

model = TinyModel(TinyConfig(hidden=6, layers=2, attention="windowed"))


@torch.compile(backend="eager")
def step(ids):
    output = model(ids)
    return output.last_hidden.reshape(len(output.to_tuple()), output["states"][1].shape[1] + 4)


step(torch.arange(7))
