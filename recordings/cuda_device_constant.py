"""Shapes that do not fit, in a frame whose own code names the GPU in every way, and asks whether it is there."""

import torch


def table(x):
    if not torch.cuda.is_available():
        return torch.zeros(4, 2)
    with torch.device("cuda"):
        bias = torch.ones(6)
    rows = torch.zeros(6, 5, device="cuda") + torch.arange(5).to("cuda:0")
    return rows + bias.cpu().cuda()[:, None] + torch.cuda.current_device()


@torch.compile(backend="aot_eager")
def step(x):
    return x @ table(x)


step(torch.randn(3, 4, device="cuda", requires_grad=True))
