"""Hooks of modules: forward, forward_pre, with keywords, full_backward, state_dict"""

import torch

seen = []


def pre(module, args, kwargs):
    return (args[0].repeat(1, 2),), {"scale": kwargs["scale"] + 1}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x, scale):
        return self.linear(x) * scale


model = Model()
model.register_forward_pre_hook(pre, with_kwargs=True)
model.register_forward_hook(lambda module, args, out: torch.cat([out, out], dim=1))
model.linear.register_forward_hook(
    lambda module, args, kwargs, out: out + 1, with_kwargs=True, always_call=True
)
model.register_full_backward_hook(lambda module, grad_in, grad_out: seen.append("backward"))
model.register_full_backward_pre_hook(lambda module, grad_out: seen.append("before"))
model.register_state_dict_post_hook(lambda module, state, prefix, metadata: seen.append("saved"))
model.register_state_dict_pre_hook(lambda module, prefix, keep: seen.append("saving"))
model.register_load_state_dict_pre_hook(lambda module, *rest: seen.append("loading"))
model.register_load_state_dict_post_hook(lambda module, keys: seen.append("loaded"))


@torch._dynamo.disable
def describe(x):
    seen.clear()
    shape = model(x, scale=1).shape
    model(x, scale=1).sum().backward()
    model.load_state_dict(model.state_dict())
    raise ValueError(f"{tuple(shape)} {seen}")


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return describe(x)


use(torch.ones(1, 3))
