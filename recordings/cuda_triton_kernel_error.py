"""A Triton kernel of the user's that does not compile: its two operands cannot be broadcast. Found by autotuning."""

import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["size"])
@triton.jit
def halves_kernel(source, target, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    half = tl.arange(0, BLOCK // 2)
    tl.store(target + at, tl.load(source + at, mask=at < size) + half, mask=at < size)


@torch.compile(fullgraph=True)
def halves(x):
    out = torch.empty_like(x)
    halves_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out + 1


halves(torch.randn(1024, device="cuda"))
