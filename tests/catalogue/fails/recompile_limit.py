"""The recompile limit is hit"""

import torch


def scale(x, factor):
    return x * len(factor)


with torch._dynamo.config.patch(recompile_limit=3):
    compiled = torch.compile(scale, backend="eager", fullgraph=True)
    for number in range(6):
        compiled(torch.ones(3), "x" * number)
