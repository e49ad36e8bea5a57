"""Inductor has no lowering for this: torch.where over float8 on the GPU."""

import torch


@torch.compile
def mask(x, keep):
    return torch.where(keep, x, x)


mask(torch.randn(8, 8, device="cuda").to(torch.float8_e4m3fn), torch.ones(8, 8, device="cuda", dtype=torch.bool))
