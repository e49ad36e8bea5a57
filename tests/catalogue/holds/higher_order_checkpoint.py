"""`torch.utils.checkpoint`, plain and selective"""

import functools

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

layer = torch.nn.Linear(3, 4)


def policy(ctx, op, *args, **kwargs):
    return (
        CheckpointPolicy.MUST_SAVE if op is torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE
    )


contexts = functools.partial(create_selective_checkpoint_contexts, policy)


@torch.compile(backend="aot_eager", fullgraph=True)
def use(x):
    y = checkpoint(lambda x: layer(x).relu(), x, use_reentrant=False)
    z = checkpoint(lambda x: layer(x).sin(), x, use_reentrant=False, context_fn=contexts)
    return (y + z) @ torch.ones(5)


use(torch.ones(2, 3, requires_grad=True))
