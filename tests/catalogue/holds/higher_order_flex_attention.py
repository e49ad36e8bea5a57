"""`flex_attention` with a score function over a tensor, and a BlockMask with a mask function"""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

bias = torch.arange(2.0)
documents = torch.zeros(128, dtype=torch.long)


def score(value, b, h, q, k):
    return value + bias[h]


def mask(b, h, q, k):
    return (q >= k) & (documents[q] == documents[k])


block_mask = create_block_mask(mask, None, None, 128, 128, device="cpu", BLOCK_SIZE=64)


@torch.compile(backend="eager", fullgraph=True)
def use(q, k, v, block_mask):
    out = flex_attention(q, k, v, score_mod=score, block_mask=block_mask)
    return out @ torch.ones(int(block_mask.kv_num_blocks.shape[-1]) + bias.shape[0])


use(*torch.ones(3, 1, 2, 128, 16).unbind(), block_mask)
