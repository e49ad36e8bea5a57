"""torch.func: `functional_call`, `stack_module_state`, `vmap`, `grad`, `jacrev`, `jvp` in a frame"""

import torch
from torch import func, nn

models = [nn.Linear(3, 4) for _ in range(2)]
parameters, buffers = func.stack_module_state(models)
base = models[0]


def loss(parameters, x):
    return func.functional_call(base, parameters, (x,)).sum()


@torch.compile(backend="aot_eager", fullgraph=True)
def use(parameters, x):
    gradients = func.vmap(func.grad(loss), in_dims=(0, None))(parameters, x)
    jacobian = func.jacrev(torch.sin)(x[0])
    _, tangent = func.jvp(torch.cos, (x,), (x,))
    return gradients["weight"] @ jacobian @ tangent.t() @ torch.ones(7)


use(parameters, torch.ones(5, 3))
