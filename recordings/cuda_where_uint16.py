"""Inductor has no lowering for this: torch.where over unsigned 16-bit integers, on the GPU."""

import torch


@torch.compile
def mask(depth, limit, far):
    return torch.where(far, limit, depth)


far = torch.arange(64, device="cuda").view(8, 8) > 30
mask(far.to(torch.uint16), torch.zeros(8, 8, dtype=torch.uint16, device="cuda"), far)
