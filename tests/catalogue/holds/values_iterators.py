"""itertools objects and iterators that were begun"""

import copy
import itertools

import torch

COUNT = itertools.count(5, 2)
CYCLE = itertools.cycle([1, 2, 3])
PAIRS = itertools.product([1, 2], [3, 4])
CHAIN = itertools.chain([1], [2, 3])
LIST, MAP, ZIP = iter([7, 8, 9]), map(abs, [-4, -5]), zip([1, 2], [3, 4], strict=True)
RANGE, ENUMERATED, REVERSED = iter(range(5)), enumerate("abc", 1), reversed([1, 2, 6])
ITERATORS = (COUNT, CYCLE, PAIRS, CHAIN, LIST, MAP, ZIP, RANGE, ENUMERATED, REVERSED)
for one in ITERATORS:
    next(one)


def sizes():
    return [next(copy.deepcopy(one)) for one in ITERATORS]


def backend(graph, example_inputs):
    raise ValueError(f"the iterators went on with {sizes()}")


@torch.compile(backend=backend)
def call(x):
    return x.sin()


call(torch.ones(5))
