"""Under autocast a product is bfloat16; adding it in place to float32 indices with the wrong dtype fails."""

import torch


@torch.compile
def accumulate(table, rows, x, weight):
    table = table.clone()
    table.index_add_(0, rows, x @ weight)
    return table


with torch.autocast("cuda", dtype=torch.bfloat16), torch.no_grad():
    accumulate(
        torch.zeros(8, 4, device="cuda"),
        torch.tensor([1, 3], device="cuda"),
        torch.randn(2, 16, device="cuda"),
        torch.randn(16, 4, device="cuda"),
    )
