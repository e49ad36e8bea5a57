"""Sparse tensors (COO): coalesced, not coalesced, with dense dimensions, as a leaf with a gradient"""

import torch

plain = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3), is_coalesced=True)
twice = torch.sparse_coo_tensor([[0, 0], [1, 1]], [5.0, 6.0], (2, 3))
hybrid = torch.sparse_coo_tensor([[1]], [[7.0, 8.0]], (2, 2), requires_grad=True)


@torch._dynamo.disable
def describe():
    given = (plain, twice, hybrid)
    flags = [
        (one.is_coalesced(), one._nnz(), one.dense_dim(), one.requires_grad, one.is_leaf) for one in given
    ]
    raise ValueError(f"{[one.to_dense().tolist() for one in given]} {flags}")


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return describe()


use(torch.ones(2))
