"""An error that `suppress_errors` hides from the program"""

import torch


def refuse(graph, example_inputs):
    """A backend that takes nothing."""
    raise ValueError(f"no room for {len(example_inputs)} inputs")


with torch._dynamo.config.patch(suppress_errors=True):
    torch.compile(lambda x, y: x.sin() + y, backend=refuse)(torch.ones(3), torch.ones(3))
