"""An autotuned Triton kernel of the user's with a device function and heuristics; then shapes that do not fit."""

import torch
import triton
import triton.language as tl


@triton.jit
def clipped(value, limit):
    return tl.minimum(tl.maximum(value, -limit), limit)


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["size"])
@triton.heuristics({"EVEN": lambda given: given["size"] % given["BLOCK"] == 0})
@triton.jit
def clip_kernel(source, target, limit, size, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    tl.store(target + at, clipped(tl.load(source + at, mask=inside), limit), mask=inside)


def clip(x, limit):
    out = torch.empty_like(x)
    size = x.numel()
    clip_kernel[lambda meta: (triton.cdiv(size, meta["BLOCK"]),)](x, out, limit, size)
    return out


@torch.compile(fullgraph=True)
def step(x, weight):
    return clip(x, 0.5) @ weight


step(torch.randn(16, 32, device="cuda"), torch.randn(16, 8, device="cuda"))
