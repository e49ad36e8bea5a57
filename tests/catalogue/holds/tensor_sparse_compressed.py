"""Sparse tensors: CSR, CSC, BSR, BSC"""

import torch

dense = torch.tensor([[1.0, 0, 0, 2], [0, 3, 0, 0]])
given = (
    dense.to_sparse_csr(),
    dense.to_sparse_csc(),
    dense.to_sparse_bsr((1, 2)),
    dense.to_sparse_bsc((2, 2)),
)
given += (dense.to_sparse_csr(dense_dim=0).requires_grad_(),)


@torch._dynamo.disable
def describe():
    shapes = [(str(one.layout), tuple(one.values().shape), one.requires_grad) for one in given]
    raise ValueError(f"{shapes} {[one.to_dense().tolist() for one in given]}")


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return describe()


use(torch.ones(2))
