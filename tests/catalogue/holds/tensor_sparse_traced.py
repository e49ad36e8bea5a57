"""A sparse tensor as an argument, which Dynamo refuses under `fullgraph`"""

import torch

matrix = torch.eye(4).to_sparse_csr()


@torch.compile(backend="eager", fullgraph=True)
def use(coo, x):
    return torch.sparse.mm(coo, x) @ torch.ones(matrix.shape[0])


use(torch.eye(3).to_sparse(), torch.ones(3, 2))
