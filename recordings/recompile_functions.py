"""A callback that is written anew at each place that samples: the code is compiled for one function at a time."""
# record: {"on": "recompile"}

import torch


@torch.compile(backend="eager")
def sample(logits, adjust):
    return torch.softmax(adjust(logits), -1)


logits = torch.linspace(0, 1, 6)
sample(logits, lambda x: x / 0.7)
sample(logits, lambda x: x - x.amax())
sample(logits, lambda x: x * (x > 0.5))
sample(logits, lambda x: x + 1)
