"""The C++ that Inductor generates does not compile; the bug is injected by a config value made for that."""

import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


@torch.compile
def activate(x):
    return torch.relu(x) + 1


activate(torch.randn(64))
