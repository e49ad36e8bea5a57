"""The values of a BlockMask"""

import torch
from torch.nn.attention.flex_attention import create_block_mask

block_mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128, device="cpu", BLOCK_SIZE=64)


@torch._dynamo.disable
def describe():
    kept = block_mask.mask_mod(None, None, torch.tensor(1), torch.tensor(2))
    numbers = block_mask.kv_num_blocks.tolist(), block_mask.kv_indices.tolist(), block_mask.sparsity()
    raise ValueError(f"{numbers} {block_mask.BLOCK_SIZE} {kept}")


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return describe()


use(torch.ones(2))
