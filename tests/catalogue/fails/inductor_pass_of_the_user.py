"""Inductor: a pass of the user's, given as an option, raises"""

import torch


def refuse(graph):
    """Runs on the graph before it is lowered."""
    names = [node.name for node in graph.nodes if node.op == "call_function"]
    raise LookupError(f"this pass does not know {names}")


@torch.compile(backend="inductor", options={"post_grad_custom_pre_pass": refuse})
def chain(x):
    return x.sin() + 1


chain(torch.ones(3))
