# Tensor parallelism with gloo: a layer split by columns and one split by rows, whose functional collectives are waited for where their tensors are used.
#
#   argv: STEPS SLOW   that rank works 10 ms more in its forward pass; -1: none

import os, sys, time
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

steps, slow = int(sys.argv[1]), int(sys.argv[2])
rank, ranks = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
torch.set_num_threads(1)
dist.init_process_group('gloo')
mesh = init_device_mesh('cpu', (ranks,))
model = torch.nn.Sequential(torch.nn.Linear(64, 64 * ranks), torch.nn.ReLU(), torch.nn.Linear(64 * ranks, 64))
model = parallelize_module(model, mesh, {'0': ColwiseParallel(), '2': RowwiseParallel()})
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
torch.manual_seed(0)
for _ in range(steps):
    batch = torch.randn(16, 64)
    time.sleep(0.014 if rank == slow else 0.004)
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
