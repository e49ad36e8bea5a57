"""Quantized tensors: one scale, and one for each channel"""

import torch

whole = torch.quantize_per_tensor(
    torch.arange(6.0).reshape(2, 3), scale=0.5, zero_point=3, dtype=torch.quint8
)
channels = torch.quantize_per_channel(
    torch.arange(6.0).reshape(2, 3),
    torch.tensor([0.5, 0.25]),
    torch.tensor([0, 1]),
    axis=0,
    dtype=torch.qint8,
)


@torch._dynamo.disable
def describe():
    given = (whole, channels, whole.t(), whole[1:])
    scales = whole.q_scale(), whole.q_zero_point(), channels.q_per_channel_scales().tolist()
    numbers = [one.int_repr().tolist() for one in given]
    raise ValueError(f"{numbers} {scales} {channels.q_per_channel_axis()} {whole.qscheme()}")


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return describe()


use(torch.ones(2))
