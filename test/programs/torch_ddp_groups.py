"""Two jobs of data parallelism side by side, as in a pipeline with two stages: ranks 0 and 1 share one model, rank 2 has another one, whose steps take
20 ms longer. Usage: torch_ddp_groups.py STEPS."""

import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.set_num_threads(1)
rank = dist.get_rank()
groups = [dist.new_group([0, 1]), dist.new_group([2])]
layers = [torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), process_group=groups[rank // 2])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(int(sys.argv[1])):
    loss = model(torch.randn(16, 64)).square().mean()
    time.sleep(0.02 if rank == 2 else 0.002)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
