"""An operator of a `Library` with a kernel for `Meta` instead of a fake: the kernel does not travel"""

# expects: missing
# names: torch.ops.catalogue_meta.tripled
import torch

library = torch.library.Library("catalogue_meta", "FRAGMENT")
library.define("tripled(Tensor x) -> Tensor")
library.impl("tripled", lambda x: x.repeat(3), "CompositeExplicitAutograd")
library.impl("tripled", lambda x: x.new_empty(x.shape[0] * 3), "Meta")


@torch.compile(backend="aot_eager")
def use(x):
    return torch.ops.catalogue_meta.tripled(x) @ torch.ones(4)


use(torch.ones(2))
