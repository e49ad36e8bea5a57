"""Inductor has no lowering for this: torch.where over unsigned 16-bit integers."""

import torch


@torch.compile
def clamp_depth(depth, limit, far):
    return torch.where(far, limit, depth)


depth = torch.arange(12).view(3, 4)
clamp_depth(depth.to(torch.uint16), torch.full((3, 4), 7, dtype=torch.uint16), depth > 7)
