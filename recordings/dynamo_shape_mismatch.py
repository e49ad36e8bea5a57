"""TorchDynamo fails while it runs the operations on fake tensors: two shapes do not fit."""

import torch


def project(x, weight):
    return x @ weight


@torch.compile(backend="aot_eager")
def attention(query, key):
    scores = project(query, key)
    return scores.softmax(-1)


attention(torch.randn(4, 16), torch.randn(8, 16))
