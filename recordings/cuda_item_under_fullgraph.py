"""A branch on a value that only the GPU knows, under `fullgraph=True`; the source names the device itself."""

import torch


@torch.compile(fullgraph=True)
def clip(gradients, limit):
    norm = torch.linalg.vector_norm(gradients)
    floor = torch.full((), 1e-6, device="cuda")
    if norm > limit:
        gradients = gradients * (limit / torch.maximum(norm, floor))
    return gradients


clip(torch.randn(1000, device="cuda"), 1.0)
