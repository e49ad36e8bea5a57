"""Inductor: C++ that does not compile"""

import torch

with torch._inductor.config.patch({"cpp.cxx": (None, "no-such-compiler-anywhere")}):
    torch.compile(lambda x: x.sin() * 2, backend="inductor")(torch.ones(9))
