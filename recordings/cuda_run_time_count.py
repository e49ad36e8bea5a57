"""While compiled code runs, a custom operator refuses a count that a Triton kernel of the user's found."""

import torch
import triton
import triton.language as tl


@triton.jit
def count_kernel(source, target, size, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(source + at, mask=at < size, other=0.0)
    tl.store(target, tl.sum((value > 0.5).to(tl.int64), 0))


@torch.library.custom_op("cudasurvey::at_most", mutates_args=())
def at_most(x: torch.Tensor, count: torch.Tensor, limit: int) -> torch.Tensor:
    if int(count) > limit:
        raise ValueError(f"{int(count)} values are above 0.5, at most {limit} may be")
    return x.clone()


@at_most.register_fake
def _(x, count, limit):
    return torch.empty_like(x)


@torch.compile(backend="aot_eager", fullgraph=True)
def check(x):
    count = torch.zeros(1, device=x.device, dtype=torch.int64)
    count_kernel[(1,)](x, count, x.numel(), BLOCK=64)
    return at_most(x, count, 5) * 2


check(torch.arange(20, device="cuda") / 20.0)
