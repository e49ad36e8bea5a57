"""A `custom_op` that is reached through a module, a closure and `torch.ops` by a name in a variable"""

import torch


@torch.library.custom_op("catalogue::by_name", mutates_args=())
def by_name(x: torch.Tensor, sizes: list[int], note: str = "a") -> torch.Tensor:
    return x.repeat(sizes)


@by_name.register_fake
def _(x, sizes, note="a"):
    return x.new_empty([a * b for a, b in zip(x.shape, sizes, strict=True)])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.operator = torch.ops.catalogue.by_name.default
        self.other = by_name

    def forward(self, x):
        return self.other(self.operator(x, [1, 2]), [1, 3]) @ torch.ones(4)


torch.compile(Model(), backend="aot_eager")(torch.ones(2, 2))
