# A pipeline of stages with gloo, one microbatch a step: each rank receives from the one before, works for 4 ms, sends to the next, and backward the same way.
#
#   argv: STEPS SLOW   that rank works 10 ms more in its forward pass; -1: none

import os, sys, time
import torch
import torch.distributed as dist

steps, slow = int(sys.argv[1]), int(sys.argv[2])
rank, ranks = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
torch.set_num_threads(1)
dist.init_process_group('gloo')
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for _ in range(steps):
    batch = torch.randn(16, 64)
    if rank > 0:
        dist.recv(batch, rank - 1)
        batch.requires_grad_()
    out = model(batch)
    time.sleep(0.014 if rank == slow else 0.004)
    if rank < ranks - 1:
        dist.send(out.detach(), dst=rank + 1)
        gradient = torch.empty(16, 64)
        dist.recv(gradient, src=rank + 1)
        out.backward(gradient)
    else:
        out.square().mean().backward()
    time.sleep(0.004)
    if rank > 0:
        dist.send(batch.grad, rank - 1)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
