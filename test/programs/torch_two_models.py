"""Two networks that train in turns, with DistributedDataParallel each, and gloo: gradients of the second go through the first. Usage:
torch_two_models.py STEPS; the last rank sleeps 20 ms before the second backward pass of each step."""

import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.set_num_threads(1)
is_slow = dist.get_rank() == dist.get_world_size() - 1
judge = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
maker = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
optimizers = [torch.optim.Adam(module.parameters()) for module in (judge, maker)]
for _ in range(int(sys.argv[1])):
    judge(maker(torch.randn(8, 64)).detach()).mean().backward()
    optimizers[0].step()
    optimizers[0].zero_grad()
    loss = judge(maker(torch.randn(8, 64))).square().mean()
    if is_slow:
        time.sleep(0.02)
    loss.backward()
    optimizers[1].step()
    for optimizer in optimizers:
        optimizer.zero_grad()
dist.destroy_process_group()
