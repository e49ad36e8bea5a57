"""The stance eager_then_compile: the second call, with shapes known as dynamic"""

import torch


@torch.compile(backend="eager")
def project(x, weight):
    return x @ weight


with torch.compiler.set_stance("eager_then_compile"):
    project(torch.ones(3, 4), torch.ones(4, 4))
    project(torch.ones(5, 4), torch.ones(3, 4))
