"""Wrong numbers in an output: a bug in Inductor's C++ (`on="accuracy"`)"""
# record: {"on": "accuracy"}

import torch
import torch._inductor.config


@torch.compile
def step(x):
    return torch.relu(x * 3) + 1


with torch._inductor.config.patch({"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"}):
    step(torch.linspace(-1, 1, 20))
