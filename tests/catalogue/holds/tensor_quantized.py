"""Quantized tensors: one scale, and one for each channel"""
import torch

whole = torch.quantize_per_tensor(torch.arange(6.0).reshape(2, 3), scale=0.5, zero_point=3, dtype=torch.quint8)
channels = torch.quantize_per_channel(
    torch.arange(6.0).reshape(2, 3), torch.tensor([0.5, 0.25]), torch.tensor([0, 1]), axis=0, dtype=torch.qint8
)


@torch._dynamo.disable
def numbers(whole, channels):
    assert channels.q_per_channel_axis() == 0 and whole.qscheme() is torch.per_tensor_affine
    scales = whole.q_scale() * 100 + channels.q_per_channel_scales().sum() * 1000 + whole.q_zero_point()
    return whole.dequantize().sum() + channels.dequantize().sum() + whole.int_repr().sum() + scales


@torch.compile(backend="eager")
def use(x):
    x = x + 1
    return x[numbers(whole, channels).long().reshape(1)]


use(torch.ones(2))
