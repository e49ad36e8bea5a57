"""Optimizers, schedulers and a GradScaler, with the state of steps taken"""

import copy

import torch

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.Adam([{"params": [model.weight], "lr": 0.5}, {"params": [model.bias]}], lr=0.25)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
scheduler = torch.optim.lr_scheduler.SequentialLR(
    optimizer,
    [
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step + 1),
        torch.optim.lr_scheduler.StepLR(optimizer, 3),
    ],
    milestones=[2],
)
scheduler.step()
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
ema = torch.optim.swa_utils.AveragedModel(model)


@torch._dynamo.disable
def describe(*given):
    model, optimizer, scheduler, scaler = copy.deepcopy(given)
    assert optimizer.param_groups[0]["params"][0] is model.weight
    step = int(optimizer.state[model.weight]["step"])
    optimizer.step()
    scheduler.step()
    rates = [group["lr"] for group in optimizer.param_groups]
    averaged = int(ema.n_averaged)
    raise ValueError(
        f"{step} {int(optimizer.state[model.weight]['step'])} {rates} {scaler.get_scale()} {averaged}"
    )


@torch.compile(backend="eager")
def use(x, *given):
    x = x + 1
    return describe(*given)


use(torch.ones(2), model, optimizer, scheduler, scaler)
