"""torch._dynamo.export: shapes that do not fit"""

import torch


def project(x, weight):
    return x @ weight


torch._dynamo.export(project, aten_graph=True)(torch.ones(3, 2), weight=torch.ones(3, 2))
