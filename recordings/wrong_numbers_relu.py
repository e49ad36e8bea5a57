"""Wrong numbers: Inductor's C++ for relu, with a bug that torch can inject for tests."""
# record: {"on": "accuracy"}

import torch
import torch._inductor.config


@torch.compile
def activate(x, weight):
    return torch.relu(x @ weight - 2)


torch.manual_seed(0)
with torch._inductor.config.patch({"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"}):
    activate(torch.randn(4, 8), torch.randn(8, 3))
