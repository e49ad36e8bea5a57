"""Sparse tensors (COO): coalesced, not coalesced, with dense dimensions"""
import torch

plain = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3), is_coalesced=True)
twice = torch.sparse_coo_tensor([[0, 0], [1, 1]], [5.0, 6.0], (2, 3))
hybrid = torch.sparse_coo_tensor([[1]], [[7.0, 8.0]], (2, 2))


@torch._dynamo.disable
def numbers(*given):
    counts = [2 * one.is_coalesced() + one._nnz() for one in given]
    return sum(one.to_dense().sum() for one in given) + 100 * torch.tensor(counts).sum() + 1000 * given[2].dense_dim()


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return x[numbers(plain, twice, hybrid).long().reshape(1)]


use(torch.ones(2))
