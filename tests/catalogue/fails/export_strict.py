"""torch.export.export(strict=True): a branch on a value"""

import torch


class Clip(torch.nn.Module):
    def forward(self, x, *, limit=1):
        if x.sum() > limit:
            return x / limit
        return x


torch.export.export(Clip(), (torch.ones(3),), {"limit": 2}, strict=True)
