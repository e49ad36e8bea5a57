"""A model in the style of timm, shipped: a registry of builders, layers made by partials"""
# package: timmish
# record: {"ship": "timmish"}

import timmish
import torch

model = timmish.create_model("mini_net", classes=5, act="gelu")
model.eval()


@torch._dynamo.assume_constant_result
def known():
    return len(timmish.list_models("mini*"))


@torch.compile(backend="eager")
def classify(x):
    return model(x).reshape(known(), model.num_features)


classify(torch.ones(3, 2, 4, 4))
