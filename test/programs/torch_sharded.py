"""Training with sharded parameters (FSDP) and gloo. Usage: torch_sharded.py STEPS; the last rank sleeps 20 ms in the forward pass of each step."""

import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:
    from torch.distributed._composable.fsdp import fully_shard

dist.init_process_group("gloo")
is_slow = dist.get_rank() == dist.get_world_size() - 1
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(2)])
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(int(sys.argv[1])):
    loss = model(torch.randn(16, 64)).square().mean()
    if is_slow:
        time.sleep(0.02)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
