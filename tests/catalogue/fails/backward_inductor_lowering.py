"""Inductor: a backward that cannot be lowered"""

import torch


def refuse(graph):
    """Runs on every graph; the backward has the gradient of sin."""
    if any("cos" in str(node.target) for node in graph.nodes):
        raise LookupError("this pass does not take cos")


@torch.compile(backend="inductor", options={"post_grad_custom_pre_pass": refuse})
def loss(x):
    return x.sin().sum()


loss(torch.ones(3, requires_grad=True)).backward()
