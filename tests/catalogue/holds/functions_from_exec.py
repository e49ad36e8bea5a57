"""A function that was made by exec, without a file"""

import torch

namespace = {"torch": torch, "COLUMNS": 5}
exec("def made(x):\n    return x.reshape(-1, COLUMNS)\n", namespace)
torch.compile(namespace["made"], backend="eager")(torch.ones(3, 4))
