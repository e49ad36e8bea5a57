"""Generators, streams, sizes, dtypes, devices, layouts, memory formats, numeric limits"""

import torch

KINDS = {
    "size": torch.Size([2, 5]),
    "dtype": torch.bfloat16,
    "device": torch.device("cpu"),
    "layout": torch.sparse_csr,
    "format": torch.channels_last,
    "scheme": torch.per_channel_affine,
    "limits": (torch.finfo(torch.float16), torch.iinfo(torch.int8)),
    "version": torch.__version__,
}
generator = torch.Generator().manual_seed(11)
torch.rand(3, generator=generator)
stream = torch.Stream(device="cpu")


@torch._dynamo.disable
def describe(kinds, generator, stream):
    drawn = torch.randint(1000, (3,), generator=generator.clone_state()).tolist()
    assert isinstance(kinds["size"], torch.Size)
    words = [str(kinds[name]) for name in kinds if name not in ("limits", "version")]
    raise ValueError(f"{words} {kinds['limits'][0].max} {kinds['limits'][1].min} {drawn} {stream.device}")


@torch.compile(backend="eager")
def use(x, generator):
    x = (x + 1).to(KINDS["dtype"]).contiguous(memory_format=KINDS["format"]).reshape(KINDS["size"])
    return describe(KINDS, generator, stream)


use(torch.ones(1, 2, 5, 1), generator)
