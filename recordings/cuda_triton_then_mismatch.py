"""A Triton kernel of the user's, traced by Dynamo; then two shapes that do not fit."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(source, target, factor, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    tl.store(target + at, tl.load(source + at, mask=inside) * factor, mask=inside)


def scaled(x, factor):
    out = torch.empty_like(x)
    size = x.numel()
    scale_kernel[(triton.cdiv(size, 128),)](x, out, factor, size, BLOCK=128)
    return out


@torch.compile(fullgraph=True)
def step(x, weight):
    return scaled(x, 2.0) @ weight


step(torch.randn(16, 32, device="cuda"), torch.randn(16, 32, device="cuda"))
