"""Wrong numbers in an input that the graph writes to, on the second call (`on="accuracy"`)"""
# record: {"on": "accuracy"}

import torch


def careless(graph, example_inputs):
    def run(*inputs):
        output = graph.forward(*inputs)
        for one in inputs:
            if isinstance(one, torch.Tensor) and one.max() > 5:
                one.add_(0.25)
        return output

    return run


@torch.compile(backend=careless)
def accumulate(total, value):
    total.add_(value)
    return total.shape[0]


total = torch.zeros(4)
accumulate(total, torch.ones(4))
accumulate(total, torch.full((4,), 6.0))
