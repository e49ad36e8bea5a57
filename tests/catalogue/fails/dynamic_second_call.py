"""Fails with dynamic shapes only, on the second call"""

import torch


def static_only(graph, example_inputs):
    """A backend that takes no symbolic sizes."""
    symbolic = sum(isinstance(value, torch.SymInt) for value in example_inputs)
    if symbolic:
        raise NotImplementedError(f"{symbolic} symbolic sizes")
    return graph


compiled = torch.compile(lambda x: x.sin() + x.shape[0], backend=static_only)
compiled(torch.ones(3))
compiled(torch.ones(4))
