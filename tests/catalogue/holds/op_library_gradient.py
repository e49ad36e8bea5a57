"""An operator of a `Library` with `torch.library.register_autograd`, traced under a gradient"""

import torch

library = torch.library.Library("catalogue_gradient", "DEF")
library.define("doubled(Tensor x) -> Tensor")
library.impl("doubled", lambda x: x * 2, "CPU")
torch.library.register_fake("catalogue_gradient::doubled", torch.empty_like, lib=library)
torch.library.register_autograd("catalogue_gradient::doubled", lambda ctx, grad: grad * 2, lib=library)


@torch.compile(backend="aot_eager")
def use(x):
    return torch.ops.catalogue_gradient.doubled(x) @ torch.ones(4)


use(torch.ones(2, 2, requires_grad=True))
