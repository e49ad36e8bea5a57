"""OmegaConf itself, shipped and absent on replay"""
# needs: omegaconf
# record: {"ship": ["omegaconf"]}
# hides: omegaconf
# note: not among the packages that the tests install

import torch
from omegaconf import OmegaConf

CONFIG = OmegaConf.create(
    {"model": {"width": 4, "double": "${model.width}", "layers": [{"n": 3}]}, "name": "run-${model.width}"}
)


@torch._dynamo.assume_constant_result
def sizes():
    return CONFIG.model.double, CONFIG.model.layers[0].n, len(CONFIG.name), len(CONFIG)


@torch.compile(backend="eager")
def call(x):
    return x.reshape(sizes())


call(torch.ones(5))
