"""`while_loop`, `scan` and `associative_scan`"""

import torch
from torch._higher_order_ops import associative_scan, scan, while_loop

limit = torch.tensor(3)


def add(carry, x):
    return carry + x, carry * 2


@torch.compile(backend="eager", fullgraph=True)
def use(x):
    _, y = while_loop(lambda i, y: i < limit, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))
    last, all_of_it = scan(add, torch.zeros(3), y)
    sums = associative_scan(lambda a, b: a + b, y, 0, combine_mode="generic")
    return (sums + all_of_it) @ torch.ones(last.shape[0] * 2)


use(torch.ones(4, 3))
