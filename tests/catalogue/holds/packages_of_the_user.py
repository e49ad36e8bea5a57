"""The user's own package: relative and late imports, circular ones, a module `__getattr__`"""
# project: ownish

import ownish
import torch
from ownish.models import Net


@torch.compile(backend="eager")
def call(model, x):
    return model(x).reshape(ownish.SIZE, ownish.computed)


call(Net(), torch.ones(2, 3))
