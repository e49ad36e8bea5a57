"""Hooks of modules that are traced into the graph"""

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x):
        return self.linear(x)


model = Model()
model.register_forward_pre_hook(lambda module, args: (args[0].repeat(1, 2),))
model.linear.register_forward_hook(lambda module, args, out: torch.cat([out, out], dim=1))
model.linear.register_full_backward_hook(lambda module, grad_in, grad_out: (grad_in[0] * 2,))


@torch.compile(backend="eager")
def use(x):
    return model(x) @ torch.ones(5)


use(torch.ones(1, 3))
