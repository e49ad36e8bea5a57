"""numpy arrays, scalars and dtypes among the globals"""
# needs: numpy

import numpy as np
import torch

TABLE = np.arange(6, dtype=np.float32).reshape(2, 3)
SCALE = np.float64(2.5)
COUNT = np.int32(4)
KIND = np.dtype("float32")
RECORD = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])


@torch._dynamo.assume_constant_result
def rows():
    return int(COUNT + RECORD["a"][0]) + KIND.itemsize + int(SCALE * TABLE[1, 2])


@torch.compile(backend="eager")
def call(x):
    y = torch.from_numpy(TABLE) * SCALE
    return (x + y.sum()).reshape(rows(), TABLE.shape[1])


call(torch.ones(5))
