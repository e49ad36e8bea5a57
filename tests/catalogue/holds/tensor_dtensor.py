"""DTensors over a process group of several ranks"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", rank=1, world_size=4, store=FakeStore())
try:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    weight = distribute_tensor(torch.ones(8, 6), mesh, [Replicate(), Shard(0)])
    x = DTensor.from_local(torch.ones(4, 8), mesh, [Shard(0), Replicate()])

    @torch.compile(backend="aot_eager")
    def use(x, weight):
        y = x @ weight
        return y.to_local() @ torch.ones(weight.to_local().shape[0] * 10 + mesh.size())

    use(x, weight)
finally:
    dist.destroy_process_group()
