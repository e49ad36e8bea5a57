"""A NaN check in a forward hook of a compiled module"""

import torch


def no_nan(module, arguments, output):
    """Raises with what it found."""
    if output.isnan().any():
        raise ArithmeticError(f"{int(output.isnan().sum())} outputs are NaN")


model = torch.nn.Linear(3, 2)
model.register_forward_hook(no_nan)
with torch.no_grad():
    model.weight[0, 0] = float("nan")
    torch.compile(model, backend="eager")(torch.ones(4, 3))
