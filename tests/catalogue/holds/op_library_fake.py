"""An operator of `Library.define` with `register_fake`: traced; the message names its shape"""

import torch

library = torch.library.Library("catalogue_library", "DEF")
library.define("widened(Tensor x, int times, *, float scale=1.0) -> Tensor")
library.define("widened.other(Tensor x, Tensor times) -> Tensor")
library.impl("widened", lambda x, times, scale=1.0: x.repeat(1, times) * scale, "CPU")


@torch.library.register_fake("catalogue_library::widened", lib=library)
def _(x, times, scale=1.0):
    return x.new_empty(x.shape[0], x.shape[1] * times)


@torch.compile(backend="aot_eager")
def use(x):
    return torch.ops.catalogue_library.widened(x, 3, scale=2.0) @ torch.ones(4)


use(torch.ones(2, 2))
