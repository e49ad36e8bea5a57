"""A model from a package of the user's: a wrong shape deep in its second layer of modules."""

import torch

from vision.model import Encoder

torch.compile(Encoder(), backend="aot_eager")(torch.randn(2, 10, 32))
