"""A user's program. It fails: the backend cannot compile the model."""

import sys

import torch
from network import Block, toy_backend

width = int(sys.argv[1])
model = torch.compile(Block(width), backend=toy_backend)
print("one step:", model(torch.ones(2, width)).shape)
