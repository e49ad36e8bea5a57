"""A call that Dynamo cannot trace is an error under `fullgraph=True`."""

import torch


@torch.compile(backend="aot_eager", fullgraph=True)
def normalise(x):
    scale = x.abs().max()
    print("scale", scale)
    return x / scale


normalise(torch.randn(8))
