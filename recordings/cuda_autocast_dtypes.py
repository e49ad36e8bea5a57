"""Under autocast a product is bfloat16; scattering it into a float32 table fails, and only there."""

import torch


@torch.compile
def accumulate(table, rows, x, weight):
    update = x @ weight
    return table.scatter(0, rows, update)


with torch.autocast("cuda", dtype=torch.bfloat16), torch.no_grad():
    accumulate(
        torch.zeros(8, 4, device="cuda"),
        torch.tensor([[1, 3, 0, 2], [1, 3, 0, 2]], device="cuda"),
        torch.randn(2, 16, device="cuda"),
        torch.randn(16, 4, device="cuda"),
    )
