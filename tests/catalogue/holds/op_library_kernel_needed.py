"""An operator of a `Library` whose kernel the frame runs: only its schema and fake travel"""

# expects: missing
# names: torch.ops.catalogue_kernel.picked
import torch

torch.library.define("catalogue_kernel::picked", "(Tensor x, Tensor at) -> Tensor")


@torch.library.impl("catalogue_kernel::picked", "cpu")
def picked(x, at):
    return x[at]


@torch.library.register_fake("catalogue_kernel::picked")
def _(x, at):
    return x.new_empty(at.shape)


@torch.compile(backend="aot_eager")
def use(x, at):
    return torch.ops.catalogue_kernel.picked(x, at) + 1


use(torch.ones(2), torch.tensor([7]))
