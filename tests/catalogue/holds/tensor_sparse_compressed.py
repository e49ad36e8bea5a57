"""Sparse tensors: CSR, CSC, BSR, BSC"""
import torch

dense = torch.tensor([[1.0, 0, 0, 2], [0, 3, 0, 0]])
given = (dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((1, 2)), dense.to_sparse_bsc((2, 2)))


@torch._dynamo.disable
def numbers(given):
    layouts = [one.layout for one in given]
    assert layouts == [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]
    assert given[0].crow_indices().dtype is torch.int64 and given[2].values().shape[-2:] == (1, 2)
    return sum((one.to_dense() * torch.arange(8).reshape(2, 4)).sum() for one in given)


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return x[numbers(given).long().reshape(1)]


use(torch.ones(2))
